//! Removing files of the sandbox.

use alloc::ffi::CString;
use core::ffi::CStr;

use crate::runtime::{
    Errno, fs,
    fs::{AT_FDCWD, AT_REMOVEDIR},
    path::terminated,
};

use super::{BuiltinError, file_error, walk::TreeWalk};

/// Removes a file, or a folder with all its content.
pub(super) fn remove(path: &[u8]) -> Result<(), BuiltinError> {
    let start = terminated(path).map_err(file_error(path))?;
    match fs::unlink(AT_FDCWD, &start, 0) {
        Ok(()) => return Ok(()),
        Err(Errno::EISDIR) => {}
        Err(errno) => return Err(file_error(path)(errno)),
    }
    remove_tree(path).map_err(file_error(path))
}

/// Removes a folder with all its content.
///
/// # Errors
///
/// `ENOTDIR` if it is not a folder, and what `unlink` and `open` report.
pub(in crate::program) fn remove_tree(path: &[u8]) -> Result<(), Errno> {
    let start = terminated(path)?;
    TreeWalk::new(AT_FDCWD, &start).and_then(empty)?;
    fs::unlink(AT_FDCWD, &start, AT_REMOVEDIR)
}

/// Removes everything below the start of a walk, including the content of folders without write or
/// search permission.
fn empty(mut walk: TreeWalk) -> Result<(), Errno> {
    loop {
        let Some(name) = walk.next_name() else {
            let Some(name) = walk.ascend()? else {
                return Ok(());
            };
            ignore_missing(unlink(&walk, &name, AT_REMOVEDIR))?;
            continue;
        };
        match unlink(&walk, &name, 0) {
            Err(Errno::EISDIR) => match unlink(&walk, &name, AT_REMOVEDIR) {
                Err(Errno::ENOTEMPTY) => descend(&mut walk, name)?,
                other => ignore_missing(other)?,
            },
            other => ignore_missing(other)?,
        }
    }
}

/// Removes an entry of the current folder; adds the owner's permissions if needed.
fn unlink(walk: &TreeWalk, name: &CStr, flags: i32) -> Result<(), Errno> {
    match fs::unlink(walk.folder(), name, flags) {
        Err(Errno::EACCES) => {
            fs::change_mode_of(walk.folder(), 0o700)?;
            fs::unlink(walk.folder(), name, flags)
        }
        other => other,
    }
}

/// Enters a folder; adds the owner's permissions if needed.
fn descend(walk: &mut TreeWalk, name: CString) -> Result<(), Errno> {
    match walk.descend(name.clone()) {
        Err(Errno::EACCES) => {
            // Code could replace the folder with a link. It gains nothing: this process has the
            // code's own identity.
            fs::change_mode(walk.folder(), &name, 0o700)?;
            walk.descend(name)
        }
        other => other,
    }
}

/// Treats an entry that is already gone as removed.
fn ignore_missing(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{ffi::OsStrExt, fs::symlink};

    #[test]
    fn folders_without_permissions_are_removed() {
        use std::os::unix::fs::PermissionsExt;
        let temp_dir = tempfile::tempdir().unwrap();
        let tree = temp_dir.path().join("tree");
        for (name, mode) in [("closed", 0o000), ("read-only", 0o500), ("unlisted", 0o300)] {
            let folder = tree.join(name);
            std::fs::create_dir_all(folder.join("below")).unwrap();
            std::fs::write(folder.join("file"), "").unwrap();
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        remove(tree.as_os_str().as_bytes()).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn trees_of_any_depth_are_removed() {
        let temp_dir = tempfile::tempdir().unwrap();
        let tree = temp_dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(temp_dir.path().join("kept"), "").unwrap();
        symlink(temp_dir.path(), tree.join("link")).unwrap();
        let mut folder = fs::open(
            &CString::new(tree.as_os_str().as_bytes()).unwrap(),
            fs::O_DIRECTORY,
            0,
        )
        .unwrap();
        // Far beyond the longest path.
        for _ in 0..1000 {
            fs::make_directory(&folder, c"folder", 0o700).unwrap();
            fs::make_node(&folder, c"fifo", crate::runtime::stat::S_IFIFO | 0o600, 0).unwrap();
            folder = fs::open_at(&folder, c"folder", fs::O_DIRECTORY, 0).unwrap();
        }
        remove(tree.as_os_str().as_bytes()).unwrap();
        assert!(!tree.exists());
        assert!(temp_dir.path().join("kept").exists());
        let missing = remove(tree.as_os_str().as_bytes());
        assert!(matches!(missing, Err(BuiltinError::File(Errno::ENOENT, _))));
    }
}
