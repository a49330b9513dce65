//! A folder of the host that one sandbox sees read-only, and that is filled while it runs.

use std::path::{Path, PathBuf};

use sandbox_core::Result;
use sandbox_core::spi::unique_name;

use super::PackageSettings;
use super::cache::{folder_error, make, prepare_private, remove, set_mode};
use super::entry_lock::EntryLock;

/// The folder in the cache, which code never sees as a whole.
const FOLDER: &str = "live";

/// The lock of the process that makes a folder and removes those of ended processes.
const ONLY_ONE: &str = "live.lock";

/// The end of the names of locks. A lock is held as long as its folder is in use.
const LOCK: &str = ".lock";

/// A folder that this process fills. Dropping it removes it, and the next one removes what a killed
/// process left.
#[derive(Debug)]
pub(super) struct LiveFolder {
    /// Its parent is private to this user.
    path: PathBuf,
    lock_path: PathBuf,
    _lock: EntryLock,
}

impl LiveFolder {
    pub(super) async fn new(settings: &PackageSettings) -> Result<Self> {
        let cache = settings.folder()?;
        prepare_private(&cache)?;
        let parent = cache.join(FOLDER);
        // Otherwise another process could remove the lock between its creation and its lock.
        let only = EntryLock::take(&cache.join(ONLY_ONE)).await;
        let _only = only.map_err(|cause| folder_error(&cache, &cause))?;
        let made = make(&parent).and_then(|()| {
            let parent = parent.canonicalize()?;
            sweep(&parent)?;
            let name = unique_name("live");
            let lock_path = parent.join(format!("{name}{LOCK}"));
            let lock = EntryLock::try_take(&lock_path)?
                .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::AlreadyExists))?;
            let path = parent.join(name);
            std::fs::create_dir(&path)?;
            set_mode(&path, 0o755)?;
            Ok(Self {
                path,
                lock_path,
                _lock: lock,
            })
        });
        made.map_err(|cause| folder_error(&parent, &cause))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LiveFolder {
    fn drop(&mut self) {
        if let Err(cause) = remove(&self.path).and_then(|()| remove(&self.lock_path)) {
            tracing::debug!(%cause, path = %self.path.display(), "left for the next sandbox to remove");
        }
    }
}

/// Removes folders whose process has ended.
fn sweep(parent: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(parent)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(LOCK)) else {
            continue;
        };
        let lock_path = parent.join(format!("{name}{LOCK}"));
        if let Some(_lock) = EntryLock::try_take(&lock_path)? {
            remove(&parent.join(name))?;
            remove(&lock_path)?;
        }
    }
    Ok(())
}

/// Lets every user read the files below a folder: the code may be another one than the installer.
/// Nothing in it is a link.
pub(super) fn open_to_all(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    set_mode(folder, 0o755)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            open_to_all(&entry.path())?;
        } else if found.is_file() {
            let mode = if found.mode() & 0o100 == 0 {
                0o644
            } else {
                0o755
            };
            set_mode(&entry.path(), mode)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn folder_of_an_ended_process_is_removed_and_no_other() {
        let cache = tempfile::tempdir().expect("a folder");
        let settings = PackageSettings {
            folder: Some(cache.path().join("sandbox/packages")),
            ..PackageSettings::default()
        };
        let first = LiveFolder::new(&settings).await.expect("made");
        let parent = first.path().parent().expect("one").to_owned();
        std::fs::create_dir_all(parent.join("live-old/x")).expect("made");
        std::fs::write(parent.join("live-old.lock"), "").expect("written");
        let second = LiveFolder::new(&settings).await.expect("made");
        assert!(first.path().is_dir() && second.path().is_dir());
        assert!(!parent.join("live-old").exists());
        drop((first, second));
        assert_eq!(std::fs::read_dir(&parent).expect("there").count(), 0);
    }

    #[test]
    fn every_user_can_read_what_was_installed() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a");
        std::fs::create_dir(&inner).expect("made");
        for (name, mode) in [("file", 0o600), ("program", 0o700)] {
            std::fs::write(inner.join(name), "").expect("written");
            set_mode(&inner.join(name), mode).expect("set");
        }
        set_mode(&inner, 0o700).expect("set");
        open_to_all(folder.path()).expect("opened");
        let mode = |path: &Path| path.metadata().expect("there").mode() & 0o777;
        let modes = [
            mode(&inner),
            mode(&inner.join("file")),
            mode(&inner.join("program")),
        ];
        assert_eq!(modes, [0o755, 0o644, 0o755]);
    }
}
