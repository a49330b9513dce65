//! Folders in the state folder that belong to one process. A later sweep removes them if that
//! process was killed.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::owned_name::{leftovers_in, unique_name};

/// Creates one.
pub(crate) fn make(state: &Path) -> io::Result<PathBuf> {
    let folder = state.join(unique_name());
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Removes a folder with its content, even if code has removed the permissions of folders in it. An
/// empty folder takes no descriptor: the lack of one may be why the creation failed.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir(folder).or_else(|_| std::fs::remove_dir_all(folder)) {
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            open_all(folder)?;
            std::fs::remove_dir_all(folder)
        }
        removed => removed,
    }
}

fn open_all(folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            // Links are not followed.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Removes folders whose owner is gone. Returns what could not be removed, and why.
pub(crate) fn remove_leftovers(state: &Path) -> Vec<String> {
    let removed = leftovers_in(state).map(|folder| (remove(&folder), folder));
    let stays = removed.filter_map(|(removed, folder)| match removed {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Some(format!("{}: {cause}", folder.display()))
        }
        _ => None,
    });
    stays.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_host::Owner;

    #[test]
    fn folders_without_permissions_are_removed() {
        let state = tempfile::tempdir().expect("a folder");
        let folder = make(state.path()).expect("made");
        std::fs::create_dir_all(folder.join("a/b")).expect("made");
        for closed in ["a/b", "a"] {
            let closed = folder.join(closed);
            std::fs::set_permissions(closed, std::fs::Permissions::from_mode(0o000))
                .expect("closed");
        }
        open_all(&folder).expect("opened");
        remove(&folder).expect("removed");
        assert!(!folder.exists());
    }

    #[test]
    fn only_folders_of_ended_owners_are_removed() {
        let state = tempfile::tempdir().expect("a folder");
        let kept = make(state.path()).expect("made");
        let ended = Owner::ended_for_tests();
        let stale = state.path().join(ended.file_name(0));
        let other = state.path().join("uids");
        for folder in [&stale, &other] {
            std::fs::create_dir_all(folder.join("content")).expect("made");
        }
        assert_eq!(remove_leftovers(state.path()), [] as [String; 0]);
        assert!(kept.exists() && other.exists() && !stale.exists());
    }
}
