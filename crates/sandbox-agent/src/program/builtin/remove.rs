//! Removing files of the sandbox.

use sandbox_freestanding::{
    Errno, Result, fs,
    fs::{AT_FDCWD, AT_REMOVEDIR},
    path::terminated,
};

use super::{Trouble, trouble, walk::Walk};

/// Removes a file, or a folder with all that is in it.
pub(super) fn remove(path: &[u8]) -> core::result::Result<(), Trouble> {
    let start = terminated(path).map_err(trouble(path))?;
    match fs::unlink(AT_FDCWD, &start, 0) {
        Ok(()) => return Ok(()),
        Err(Errno::EISDIR) => {}
        Err(errno) => return Err(trouble(path)(errno)),
    }
    remove_tree(path).map_err(trouble(path))
}

/// Removes a folder with all that is in it.
///
/// # Errors
///
/// `ENOTDIR` for anything else, and what `unlink` and `open` report.
pub(in crate::program) fn remove_tree(path: &[u8]) -> Result<()> {
    let start = terminated(path)?;
    Walk::new(AT_FDCWD, &start).and_then(empty)?;
    fs::unlink(AT_FDCWD, &start, AT_REMOVEDIR)
}

/// Removes everything below the start of a walk.
fn empty(mut walk: Walk) -> Result<()> {
    loop {
        let Some(name) = walk.next_name() else {
            let Some(name) = walk.ascend()? else {
                return Ok(());
            };
            gone(fs::unlink(walk.folder(), &name, AT_REMOVEDIR))?;
            continue;
        };
        match fs::unlink(walk.folder(), &name, 0) {
            Err(Errno::EISDIR) => match fs::unlink(walk.folder(), &name, AT_REMOVEDIR) {
                Err(Errno::ENOTEMPTY) => walk.descend(name)?,
                other => gone(other)?,
            },
            other => gone(other)?,
        }
    }
}

/// What somebody else removed first is as wanted.
fn gone(removed: Result<()>) -> Result<()> {
    match removed {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::ffi::CString;
    use std::os::unix::{ffi::OsStrExt, fs::symlink};

    #[test]
    fn removes_trees_of_any_depth() {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(place.path().join("kept"), "").unwrap();
        symlink(place.path(), tree.join("link")).unwrap();
        let mut folder = fs::open(
            &CString::new(tree.as_os_str().as_bytes()).unwrap(),
            fs::O_DIRECTORY,
            0,
        )
        .unwrap();
        // Far beyond the longest path.
        for _ in 0..1000 {
            fs::make_directory(&folder, c"folder", 0o700).unwrap();
            fs::make_node(
                &folder,
                c"fifo",
                sandbox_freestanding::stat::S_IFIFO | 0o600,
                0,
            )
            .unwrap();
            folder = fs::open_at(&folder, c"folder", fs::O_DIRECTORY, 0).unwrap();
        }
        remove(tree.as_os_str().as_bytes()).unwrap();
        assert!(!tree.exists());
        assert!(place.path().join("kept").exists());
        let missing = remove(tree.as_os_str().as_bytes());
        assert!(matches!(missing, Err(Trouble::File(Errno::ENOENT, _))));
    }
}
