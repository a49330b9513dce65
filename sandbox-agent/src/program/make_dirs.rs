//! Folders that must exist before anything runs.

use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::{
    Errno,
    credentials::{effective_group, effective_user, set_effective_group, set_effective_user},
    fs,
    fs::AT_FDCWD,
    path::terminated,
    stat::stat_at,
};

use super::failures::{failure, text};
use super::privilege::set_file_identity;
use crate::protocol::{FailStep, Failure};

/// Changes the owner of existing folders.
///
/// # Errors
///
/// The path whose owner could not be changed.
pub(super) fn chown_dirs(paths: &[Vec<u8>], owner: Option<(u32, u32)>) -> Result<(), Failure> {
    let Some((user, group)) = owner else {
        return Ok(());
    };
    for path in paths {
        terminated(&path[..])
            .and_then(|path| {
                fs::change_owner(AT_FDCWD, &path, user, group, fs::AT_SYMLINK_NOFOLLOW)
            })
            .map_err(|errno| failure(FailStep::Settings, errno, text(path)))?;
    }
    Ok(())
}

/// Makes each folder and its missing parents. New folders belong to `owner`. On a read-only file
/// system, a missing folder stays missing: code cannot write a file there either.
///
/// # Errors
///
/// The path that could not be made.
pub(super) fn make_dirs(paths: &[Vec<u8>], owner: Option<(u32, u32)>) -> Result<(), Failure> {
    for path in paths {
        match make_path(path, 0o755, owner) {
            Ok(()) | Err(Errno::EROFS) => {}
            Err(errno) => return Err(failure(FailStep::Settings, errno, text(path))),
        }
    }
    Ok(())
}

/// Makes a folder and its missing parents.
///
/// # Errors
///
/// `ENOTDIR` if something else exists there, and what `mkdir` and `chown` report.
pub(super) fn make_path(path: &[u8], mode: u32, owner: Option<(u32, u32)>) -> Result<(), Errno> {
    let mut end = 0;
    while end < path.len() {
        end += 1 + path[end + 1..]
            .iter()
            .position(|byte| *byte == b'/')
            .unwrap_or(path.len() - end - 1);
        let part = terminated(&path[..end])?;
        match fs::make_directory(AT_FDCWD, &part, mode) {
            Ok(()) => {
                if let Some(owner) = owner {
                    set_owner(&part, mode, owner)?;
                }
            }
            // An existing parent may be on a read-only file system, or not writable for the agent.
            Err(Errno::EEXIST | Errno::EROFS | Errno::EACCES | Errno::EPERM)
                if stat_at(AT_FDCWD, &part, 0).is_ok_and(|metadata| metadata.is_directory()) => {}
            Err(Errno::EEXIST) => return Err(Errno::ENOTDIR),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Gives a new folder to an owner. Without `CAP_CHOWN`, makes the folder again with the owner's
/// identity.
fn set_owner(folder: &CStr, mode: u32, (user, group): (u32, u32)) -> Result<(), Errno> {
    match fs::change_owner(AT_FDCWD, folder, user, group, fs::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::EPERM) => {
            fs::unlink(AT_FDCWD, folder, fs::AT_REMOVEDIR)?;
            set_file_identity(user, group);
            let made = fs::make_directory(AT_FDCWD, folder, mode);
            set_file_identity(effective_user(), effective_group());
            made?;
            // gVisor accepts the file identity and ignores it.
            if stat_at(AT_FDCWD, folder, fs::AT_SYMLINK_NOFOLLOW)?.user == user {
                return Ok(());
            }
            fs::unlink(AT_FDCWD, folder, fs::AT_REMOVEDIR)?;
            with_effective_user(user, group, || fs::make_directory(AT_FDCWD, folder, mode))
        }
        other => other,
    }
}

/// Runs `action` with another effective identity.
fn with_effective_user(
    user: u32,
    group: u32,
    action: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let previous = (effective_user(), effective_group());
    set_effective_group(group)?;
    let result = set_effective_user(user).and_then(|()| action());
    // An agent that cannot return to its own identity must fail.
    set_effective_user(previous.0)?;
    set_effective_group(previous.1)?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn missing_folders_are_made() {
        let temp_dir = tempfile::tempdir().unwrap();
        for path in ["a/b//c", "a/b", "a/x/", "."] {
            let path = temp_dir.path().join(path);
            make_path(path.as_os_str().as_bytes(), 0o700, None).unwrap();
            assert!(path.is_dir());
        }
        std::fs::write(temp_dir.path().join("file"), "").unwrap();
        for (path, expected) in [("file", Errno::ENOTDIR), ("file/x", Errno::ENOTDIR)] {
            let path = temp_dir.path().join(path);
            assert_eq!(
                make_path(path.as_os_str().as_bytes(), 0o700, None),
                Err(expected)
            );
        }
    }
}
