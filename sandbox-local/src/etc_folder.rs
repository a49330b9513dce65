//! The prepared `/etc` of sandboxes, in the state folder.
//!
//! There is one for each state of the host's files and each kind of sandbox. The first sandbox
//! creates it. It is never removed, since running sandboxes have it mounted. The state folder is
//! usually a tmpfs, and the host's files change rarely.

use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use sandbox_core::Result;

use crate::error;
use crate::lower::{Etc, EtcEntry};
use crate::owned_folder;

/// Creates it if missing.
pub(crate) fn prepare(tier: &str, state: &Path, etc: &Etc) -> Result<()> {
    let folder = etc.folder(state);
    if folder.is_dir() {
        return Ok(());
    }
    let built = owned_folder::make(state).and_then(|unfinished| {
        let built = finish(&unfinished, state, &folder, etc);
        if built.is_err() {
            remove_partial(&unfinished, etc);
        }
        built
    });
    built.map_err(|cause| error::setup(tier, format!("prepare {}", folder.display()), cause))
}

/// Builds it in `unfinished` and renames it to `folder`.
fn finish(unfinished: &Path, state: &Path, folder: &Path, etc: &Etc) -> io::Result<()> {
    build(unfinished, etc)?;
    make_folder(&state.join("etc"), 0o700)?;
    match std::fs::rename(unfinished, folder) {
        // Another process was faster.
        Err(_) if folder.is_dir() => std::fs::remove_dir_all(unfinished),
        renamed => renamed,
    }
}

/// Removes by name what was built so far: listing a folder takes a descriptor, and the lack of one
/// may be why it was not finished. Failures are ignored: the caller reports the error that came
/// first.
fn remove_partial(folder: &Path, etc: &Etc) {
    let below = etc.entries.keys().rev();
    for path in below.filter_map(|path| path.strip_prefix("/etc").ok()) {
        let target = folder.join(path);
        // A file, a folder, or not created yet.
        let _ = std::fs::remove_file(&target).or_else(|_| std::fs::remove_dir(&target));
        for parent in path.ancestors().skip(1) {
            // A parent is removed with the last path in it.
            let _ = std::fs::remove_dir(folder.join(parent));
        }
    }
    let _ = std::fs::remove_dir(folder);
}

fn build(folder: &Path, etc: &Etc) -> io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    for (path, entry) in &etc.entries {
        let below = path.strip_prefix("/etc").map_err(io::Error::other)?;
        let target = folder.join(below);
        let parents = below.ancestors().skip(1).collect::<Vec<_>>();
        for parent in parents.into_iter().rev() {
            make_folder(&folder.join(parent), 0o755)?;
        }
        let made = match entry {
            EtcEntry::Folder => make_folder(&target, 0o755),
            EtcEntry::EmptyFile => write(&target, b""),
            EtcEntry::Link(says) => symlink(says, &target),
            EtcEntry::Copy(_) => std::fs::read(path).and_then(|content| write(&target, &content)),
            EtcEntry::File(content) => write(&target, content),
        };
        made.map_err(|cause| io::Error::new(cause.kind(), format!("{}: {cause}", path.display())))?;
    }
    Ok(())
}

/// Creates a folder with these permissions, regardless of the umask. An existing folder is fine.
fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)),
        Err(_) if folder.is_dir() => Ok(()),
        Err(cause) => Err(cause),
    }
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?;
    io::Write::write_all(&mut file, content)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etc() -> Etc {
        let entries = [
            ("/etc/ssl/certs", EtcEntry::Folder),
            ("/etc/ssl/openssl.cnf", EtcEntry::EmptyFile),
            (
                "/etc/localtime",
                EtcEntry::Link("/usr/share/zoneinfo/Etc/UTC".into()),
            ),
            ("/etc/passwd", EtcEntry::File(b"root\n".to_vec())),
        ];
        Etc {
            entries: entries
                .into_iter()
                .map(|(path, entry)| (path.into(), entry))
                .collect(),
        }
    }

    #[test]
    fn folder_is_built_once_and_reused() {
        let state = tempfile::tempdir().expect("a folder");
        prepare("local", state.path(), &etc()).expect("built");
        let folder = etc().folder(state.path());
        assert_eq!(
            std::fs::read(folder.join("passwd")).expect("there"),
            b"root\n"
        );
        assert!(folder.join("ssl/certs").is_dir() && folder.join("ssl/openssl.cnf").is_file());
        let link = std::fs::read_link(folder.join("localtime")).expect("a link");
        assert_eq!(link, Path::new("/usr/share/zoneinfo/Etc/UTC"));
        for path in [folder.clone(), folder.join("ssl")] {
            let mode = std::fs::metadata(&path)
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o755, "{}", path.display());
        }
        prepare("local", state.path(), &etc()).expect("found");
        let left = std::fs::read_dir(state.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing is left over");
    }

    #[test]
    fn failed_build_leaves_nothing() {
        let state = tempfile::tempdir().expect("a folder");
        std::fs::write(state.path().join("etc"), "in the way").expect("written");
        assert!(prepare("local", state.path(), &etc()).is_err());
        assert_eq!(
            std::fs::read_dir(state.path()).expect("a folder").count(),
            1
        );
    }

    #[test]
    fn different_content_has_a_different_key() {
        let mut other = etc();
        other
            .entries
            .insert("/etc/passwd".into(), EtcEntry::File(b"other\n".to_vec()));
        assert_ne!(etc().key(), other.key());
    }

    #[test]
    fn concurrent_builds_create_one_folder() {
        let state = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| prepare("local", state.path(), &etc()).expect("built or found"));
            }
        });
        let made = std::fs::read_dir(state.path().join("etc"))
            .expect("a folder")
            .count();
        assert_eq!(made, 1);
    }
}
