//! The option `--volume`: host paths at paths of the sandbox, written as Docker's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use sandbox::{HostMount, Storage, StorageMount, Workspace};

use super::paths::existing;
use crate::command_error::CommandError;

/// The target that is the workspace.
const WORKSPACE: &str = "/workspace";

/// What the options mount.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// Host paths.
    pub mounts: Vec<HostMount>,
    /// Storage of the policy.
    pub storage: Vec<StorageMount>,
}

/// The mounts that the options request. A host path at `/workspace` is the workspace. A source
/// without a slash is a name in `storage`, if it is there.
pub fn volumes(
    options: &[OsString],
    workspace: &mut Option<Workspace>,
    storage: &BTreeMap<String, Storage>,
) -> Result<Volumes, CommandError> {
    let mut found = Volumes::default();
    for option in options {
        let (source, target, read_only) = parse(option).map_err(|why| {
            CommandError::argument(format!("--volume {}: {why}", option.display()))
        })?;
        if let Some(name) = stored(&source, storage) {
            found.storage.push(match read_only {
                true => StorageMount::read_only(name, target),
                false => StorageMount::read_write(name, target),
            });
            continue;
        }
        let source = existing("--volume", &source)?;
        if target == Path::new(WORKSPACE) {
            let folder = match read_only {
                true => Workspace::read_only(source),
                false => Workspace::read_write(source),
            };
            if workspace.replace(folder).is_some() {
                let why = format!(
                    "--volume {}: the sandbox already has a workspace",
                    option.display()
                );
                return Err(CommandError::argument(why)
                    .with_fix("name one folder for /workspace, and other paths for the others"));
            }
            continue;
        }
        found.mounts.push(match read_only {
            true => HostMount::read_only(source, target),
            false => HostMount::read_write(source, target),
        });
    }
    Ok(found)
}

/// The workspace that an option names in the policy's storage.
pub fn stored_workspace(text: &OsStr, storage: &BTreeMap<String, Storage>) -> Option<StorageMount> {
    let (path, read_only) = super::paths::workspace(text);
    let name = stored(&path, storage)?;
    Some(match read_only {
        true => StorageMount::read_only(name, WORKSPACE),
        false => StorageMount::read_write(name, WORKSPACE),
    })
}

/// The name in the policy's storage, unless this is a path.
fn stored<'a>(source: &Path, storage: &'a BTreeMap<String, Storage>) -> Option<&'a str> {
    let (name, _) = storage.get_key_value(source.to_str()?)?;
    Some(name)
}

/// The source, the target, and whether the mount is read-only.
fn parse(option: &OsStr) -> Result<(PathBuf, PathBuf, bool), String> {
    let parts = option.as_bytes().split(|byte| *byte == b':');
    let parts = parts.collect::<Vec<_>>();
    let (source, target, flags) = match *parts.as_slice() {
        [source, target] => (source, target, &b""[..]),
        [source, target, flags] => (source, target, flags),
        [_] => return Err("write it as SRC:DST or SRC:DST:ro".into()),
        _ => {
            return Err(
                "SRC and DST cannot have a colon; write it as SRC:DST or SRC:DST:ro".into(),
            );
        }
    };
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    if source.is_empty() || target.is_empty() {
        return Err("write it as SRC:DST or SRC:DST:ro, with neither of them empty".into());
    }
    let target = path(target);
    if !target.is_absolute() {
        return Err(format!(
            "the path in the sandbox must be absolute, such as /{}",
            target.display()
        ));
    }
    // Without `//`, `/./` and a final slash, which Docker accepts.
    Ok((
        path(source),
        target.components().collect(),
        is_read_only(flags)?,
    ))
}

fn is_read_only(flags: &[u8]) -> Result<bool, String> {
    let text = String::from_utf8_lossy(flags);
    let flags = text.split(',').filter(|flag| !flag.is_empty());
    let mut access = None;
    for flag in flags {
        let asked = match flag {
            "ro" | "readonly" => true,
            "rw" => false,
            "z" | "Z" => {
                return Err(format!(
                    "leave {flag:?} out: files are not relabeled for SELinux; the options are ro and rw"
                ));
            }
            _ => {
                return Err(format!(
                    "unknown option {flag:?}; the options are ro and rw"
                ));
            }
        };
        if access.replace(asked).is_some_and(|before| before != asked) {
            return Err("ro and rw contradict each other".into());
        }
    }
    Ok(access.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(PathBuf, PathBuf, bool), String> {
        parse(OsStr::new(text))
    }

    #[test]
    fn volumes_are_written_as_dockers() {
        let is = |read_only| Ok(("a".into(), "/b".into(), read_only));
        for (text, read_only) in [
            ("a:/b", false),
            ("a:/b:rw", false),
            ("a:/b:", false),
            ("a:/b/", false),
            ("a:/b:ro", true),
            ("a:/b:ro,ro", true),
        ] {
            assert_eq!(parsed(text), is(read_only), "{text}");
        }
        assert_eq!(
            parsed("/x y:/b//c/./d"),
            Ok(("/x y".into(), "/b/c/d".into(), false))
        );
    }

    #[test]
    fn bad_volumes_say_what_is_wrong() {
        for (text, says) in [
            ("a", "SRC:DST"),
            (":/b", "empty"),
            ("a:", "empty"),
            ("a:b", "absolute"),
            ("a:/b:rw,z", "SELinux"),
            ("a:/b:cached", "unknown option"),
            ("a:/b:ro,rw", "contradict"),
            ("a:/b:ro:x", "colon"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn volume_at_workspace_is_the_workspace_once() {
        let folder = tempfile::tempdir().unwrap();
        let option = |target: &str| format!("{}:{target}", folder.path().display()).into();
        let mut workspace = None;
        let none = BTreeMap::new();
        let options = [option("/workspace:ro"), option("/b")];
        let found = volumes(&options, &mut workspace, &none).unwrap();
        assert_eq!(workspace, Some(Workspace::read_only(folder.path())));
        assert_eq!(found.mounts, [HostMount::read_write(folder.path(), "/b")]);
        let error = volumes(&[option("/workspace")], &mut workspace, &none).unwrap_err();
        assert!(
            error.to_string().contains("already has a workspace"),
            "{error}"
        );
    }

    #[test]
    fn names_of_the_policy_are_storage_and_paths_are_not() {
        let storage = BTreeMap::from([("lab".to_owned(), Storage::path("/srv/lab"))]);
        let found = volumes(&["lab:/lab:ro".into()], &mut None, &storage).unwrap();
        assert_eq!(found.storage, [StorageMount::read_only("lab", "/lab")]);
        assert_eq!(found.mounts, []);
        let workspace = |text: &str| stored_workspace(OsStr::new(text), &storage);
        let expected = StorageMount::read_write("lab", "/workspace");
        assert_eq!(workspace("lab"), Some(expected));
        let expected = StorageMount::read_only("lab", "/workspace");
        assert_eq!(workspace("lab:ro"), Some(expected));
        for path in ["./lab", "other", "/lab"] {
            assert_eq!(workspace(path), None, "{path}");
        }
    }
}
