//! Opens output folders, whose paths may contain folders that code wrote to in an earlier run.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, statat};

use crate::safe_path::{Identity, LinkReason, LinkRule, Opened, PathError, is_system_link};

/// Opens an output folder, and creates it and its parents if missing.
///
/// A program writes files with unknown names there, so fewer links are followed than in paths of
/// roots:
///
/// - None in or below the folders `writable`, which the sandbox's code can write to.
/// - None in or below the working folder of this process, which code of an earlier run may have
///   written to.
/// - Not the folder itself.
/// - Other links that leave their folder only with `follow`.
///
/// The [system's own links](is_system_link) are followed in the last two cases.
///
/// # Errors
///
/// Such a link, something that is not a folder, or an error of the file system. Nothing is created
/// behind a refused link.
pub fn open_output_folder(
    path: &Path,
    writable: &[PathBuf],
    follow: bool,
) -> Result<Opened, PathError> {
    open_from(std::env::current_dir().ok(), path, writable, follow)
}

/// As [`open_output_folder`], for the working folder `working`.
fn open_from(
    working: Option<PathBuf>,
    path: &Path,
    writable: &[PathBuf],
    follow: bool,
) -> Result<Opened, PathError> {
    let writable = Identity::of_paths(writable.iter().map(PathBuf::as_path));
    // A working folder of `/` would forbid all links; the other rules suffice then.
    let working = working.filter(|folder| folder.parent().is_some());
    let refused = Identity::of_paths(working.as_deref())
        .into_iter()
        .chain(writable.iter().copied());
    let rule = LinkRule::new(follow).writable(refused);
    let open = |path: &Path| {
        rule.open_or_make(path)
            .map_err(|error| explained(error, &writable))
    };
    let whole = std::path::absolute(path).map_err(|cause| PathError::System { at: None, cause })?;
    let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
        return open(&whole);
    };
    let parent = open(parent)?;
    if let Ok(found) = statat(&parent.object, name, AtFlags::SYMLINK_NOFOLLOW)
        && FileType::from_raw_mode(found.st_mode) == FileType::Symlink
        && !is_system_link(&parent.path, &parent.found, &found)
    {
        let at = parent.path.join(name);
        return Err(PathError::Link {
            target: std::fs::read_link(&at).unwrap_or_default(),
            reason: match parent.way().iter().any(|one| writable.contains(one)) {
                true => LinkReason::CodeCanWrite,
                false => LinkReason::OutputFolder,
            },
            at,
        });
    }
    open(&parent.path.join(name))
}

/// The rule treats the working folder as writable by code; the error names the real reason.
fn explained(error: PathError, writable: &[Identity]) -> PathError {
    match error {
        PathError::Link {
            at,
            target,
            reason: LinkReason::CodeCanWrite,
        } if !Identity::of_paths(at.ancestors().skip(1))
            .iter()
            .any(|folder| writable.contains(folder)) =>
        {
            PathError::Link {
                at,
                target,
                reason: LinkReason::OutputFolder,
            }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().expect("a folder");
        let base = place.path().canonicalize().expect("a path");
        (place, base)
    }

    fn found(path: &Path, writable: &[PathBuf], follow: bool) -> Result<PathBuf, PathError> {
        open_output_folder(path, writable, follow).map(|opened| opened.path)
    }

    #[test]
    fn missing_folders_are_made_and_links_that_stay_in_their_folder_followed() {
        let (_place, base) = place();
        std::fs::create_dir_all(base.join("a/b")).expect("made");
        symlink("a/b", base.join("inner")).expect("a link");
        for (path, real) in [
            ("a/b", "a/b"),
            ("a/b/./new/folder", "a/b/new/folder"),
            ("inner/new", "a/b/new"),
            ("a/b/../other", "a/other"),
        ] {
            let path = found(&base.join(path), &[], false).expect(path);
            assert_eq!(path, base.join(real));
            assert!(path.is_dir());
        }
        std::fs::write(base.join("file"), "").expect("written");
        for bad in ["file", "file/x", "file/.."] {
            assert!(found(&base.join(bad), &[], false).is_err(), "{bad}");
        }
        assert_eq!(
            found(Path::new("/"), &[], false).expect("there"),
            Path::new("/")
        );
    }

    #[test]
    fn an_output_folder_that_is_a_link_is_refused() {
        let (_place, base) = place();
        std::fs::create_dir_all(base.join("proj/inside")).expect("made");
        std::fs::create_dir(base.join("autostart")).expect("made");
        symlink("../autostart", base.join("proj/artifacts")).expect("a link");
        symlink("inside", base.join("proj/stays")).expect("a link");
        symlink("../missing", base.join("proj/dangling")).expect("a link");
        for follow in [false, true] {
            for bad in ["artifacts", "stays", "dangling", "artifacts/"] {
                let error = found(&base.join("proj").join(bad), &[], follow).expect_err(bad);
                assert!(error.to_string().contains("is a link"), "{error}");
            }
        }
        assert!(!base.join("missing").exists());
        let way = base.join("proj/artifacts/new");
        assert!(found(&way, &[], false).is_err(), "it leaves its folder");
        assert!(!base.join("autostart/new").exists());
        assert_eq!(
            found(&way, &[], true).expect("followed"),
            base.join("autostart/new")
        );
    }

    #[test]
    fn a_link_below_the_working_folder_is_refused() {
        let (_place, base) = place();
        let found = |path: &Path, follow| {
            open_from(Some(base.clone()), path, &[], follow).map(|opened| opened.path)
        };
        std::fs::create_dir_all(base.join("inside/deep")).expect("made");
        symlink("inside", base.join("link")).expect("a link");
        for follow in [false, true] {
            let error = found(&base.join("link/deep"), follow).expect_err("a link");
            assert!(
                error.to_string().contains("on the way to an output folder"),
                "{error}"
            );
        }
        assert!(found(&base.join("inside/deep/new"), false).is_ok());
    }

    #[test]
    fn a_link_where_code_can_write_is_refused_whatever_the_folder_is_called() {
        let (_place, base) = place();
        std::fs::create_dir_all(base.join("work/sub")).expect("made");
        std::fs::create_dir(base.join("victim")).expect("made");
        symlink(base.join("victim"), base.join("work/sub/out")).expect("a link");
        symlink("sub", base.join("work/inner")).expect("a link");
        symlink("work", base.join("alias")).expect("a link");
        let writable = [base.join("alias")];
        for bad in [
            "work/sub/out",
            "work/sub/out/new",
            "work/inner/x",
            "alias/sub/out",
        ] {
            let error = found(&base.join(bad), &writable, true).expect_err(bad);
            assert!(
                error
                    .to_string()
                    .contains("in a folder that the code can write to"),
                "{error}"
            );
        }
        let left = std::fs::read_dir(base.join("victim")).expect("there");
        assert_eq!(left.count(), 0);
        // The caller's own link to the working folder, and folders below it.
        let fine = found(&base.join("alias/sub/fine"), &writable, false).expect("made");
        assert_eq!(fine, base.join("work/sub/fine"));
    }
}
