//! The cache of installed packages on the host.
//!
//! - `entries/KEY/base`: a complete folder of packages. The key is a hash of interpreter, registries and
//!   requirements.
//! - `entries/KEY/contents.json`: a description for people.
//! - `staging/KEY.UNIQUE`: an installation in progress, or the leftover of a killed one.
//! - `locks/KEY`: locked during an installation.
//!
//! An entry appears by renaming a complete folder that is flushed to disk, so no process ever sees
//! a partial entry, whichever process is killed. An entry is used only if its [record](EntryRecords)
//! matches its content.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandbox_core::policy::Requirement;
use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, Result};
use serde::Serialize;

use super::Interpreter;
use super::entry_lock::EntryLock;
use super::entry_records::EntryRecords;
use super::recipe::RecipeSource;

/// Changes with the layout of entries.
const FORMAT: &str = "2";

/// The folders of the cache.
const FOLDERS: [&str; 3] = ["entries", "staging", "locks"];

/// The name of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CacheKey(String);

impl CacheKey {
    /// The key of these packages for this interpreter and these registries. Clients with different
    /// state folders have different keys: neither could verify the other's entries, so they would
    /// replace them.
    pub(super) fn of(
        interpreter: &Interpreter,
        source: &RecipeSource,
        packages: &[Requirement],
        state: &Path,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut part = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        part(FORMAT);
        part(std::env::consts::ARCH);
        part(interpreter.identity());
        part(&source.identity);
        part(&state.to_string_lossy());
        // All are of one installer: its name is in each.
        for package in packages {
            part(&package.to_string());
        }
        Self(hasher.finalize().to_hex()[..32].to_owned())
    }
}

/// An existing cache that belongs to the caller.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: PathBuf,
    records: EntryRecords,
}

/// The cache's content for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CacheLookup {
    /// No entry.
    Nothing,
    /// The installed packages.
    Genuine(PathBuf),
    /// An entry that does not match its record.
    Unproven,
}

/// The description in an entry.
#[derive(Serialize)]
struct EntryDescription<'a> {
    interpreter: &'a str,
    packages: Vec<String>,
}

impl Cache {
    /// Opens the cache, creating it if missing. Refuses a cache that others may write to: they
    /// could choose what sandboxes run. Records of its entries are in `state`, a folder that no
    /// code sees.
    pub(super) fn open(folder: &Path, state: &Path) -> Result<Self> {
        prepare_private(folder)?;
        let failed = |cause: io::Error| folder_error(folder, &cause);
        let folder = folder.canonicalize().map_err(failed)?;
        for name in FOLDERS {
            make(&folder.join(name)).map_err(failed)?;
        }
        let records =
            EntryRecords::open(state, &folder).map_err(|cause| folder_error(state, &cause))?;
        Ok(Self { folder, records })
    }

    /// Looks up an entry.
    pub(super) fn find(&self, key: &CacheKey) -> CacheLookup {
        let base = self.entry(key).join("base");
        if std::fs::symlink_metadata(self.entry(key)).is_err() {
            return CacheLookup::Nothing;
        }
        match self.records.holds(&key.0, &base) {
            // A link could lead elsewhere a moment later.
            Ok(true) if is_folder(&self.entry(key)) && is_folder(&base) => {
                CacheLookup::Genuine(base)
            }
            Ok(_) => CacheLookup::Unproven,
            // A new installation does not use it.
            Err(cause) => {
                tracing::warn!(%cause, path = %base.display(), "an entry of the cache cannot be looked at");
                CacheLookup::Unproven
            }
        }
    }

    fn entry(&self, key: &CacheKey) -> PathBuf {
        self.folder.join("entries").join(&key.0)
    }

    /// Waits until no other process installs these packages.
    pub(super) async fn lock(&self, key: &CacheKey) -> Result<EntryLock> {
        let path = self.folder.join("locks").join(&key.0);
        let lock = EntryLock::take(&path).await;
        lock.map_err(|cause| folder_error(&path, &cause))
    }

    /// Creates a folder to install into. First removes leftovers of killed installations.
    pub(super) fn stage(&self, key: &CacheKey, _lock: &EntryLock) -> Result<Staging> {
        let parent = self.folder.join("staging");
        self.sweep(&parent, key);
        let folder = parent.join(format!("{}.{}", key.0, unique_name("stage")));
        // A killed process with the same id may have left it.
        let made = remove(&folder).and_then(|()| {
            make(&folder)?;
            let staging = Staging { folder };
            // The installer's user on the host varies; the parent folder is private to the caller.
            for folder in [staging.work(), staging.base(), staging.temporary()] {
                std::fs::create_dir(&folder)?;
                set_mode(&folder, 0o777)?;
            }
            Ok(staging)
        });
        made.map_err(|cause| folder_error(&parent, &cause))
    }

    /// Removes staging folders without a running installation: those of this key, whose lock the
    /// caller holds, and those whose locks are free.
    fn sweep(&self, parent: &Path, own: &CacheKey) {
        let Ok(entries) = std::fs::read_dir(parent) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some((key, _)) = name.to_str().and_then(|name| name.split_once('.')) else {
                continue;
            };
            let lock = match key == own.0 {
                true => None,
                false => match EntryLock::try_take(&self.folder.join("locks").join(key)) {
                    Ok(Some(lock)) => Some(lock),
                    Ok(None) | Err(_) => continue,
                },
            };
            if let Err(cause) = remove(&entry.path()) {
                tracing::debug!(%cause, path = %entry.path().display(), "a stale installation stays");
            }
            drop(lock);
        }
    }

    /// Turns an installation into an entry.
    pub(super) fn publish(
        &self,
        key: &CacheKey,
        staging: Staging,
        interpreter: &Interpreter,
        packages: &[Requirement],
    ) -> Result<PathBuf> {
        let published = self.try_publish(key, &staging, interpreter, packages);
        published.map_err(|cause| folder_error(&self.entry(key), &cause))?;
        Ok(self.entry(key).join("base"))
    }

    fn try_publish(
        &self,
        key: &CacheKey,
        staging: &Staging,
        interpreter: &Interpreter,
        packages: &[Requirement],
    ) -> io::Result<()> {
        let entry = staging.folder.join("entry");
        make(&entry)?;
        // No process writes there any more. A link would expose its target in every sandbox.
        if !is_folder(&staging.base()) {
            return Err(io::Error::other("what was installed is no folder"));
        }
        set_mode(&staging.base(), 0o755)?;
        std::fs::rename(staging.base(), entry.join("base"))?;
        let contents = EntryDescription {
            interpreter: interpreter.identity(),
            packages: packages.iter().map(ToString::to_string).collect(),
        };
        std::fs::write(
            entry.join("contents.json"),
            serde_json::to_vec_pretty(&contents).map_err(io::Error::other)?,
        )?;
        // The files must reach the disk before the name does.
        rustix::fs::syncfs(std::fs::File::open(&entry)?)?;
        // Only an unverified entry can exist here.
        remove(&self.entry(key))?;
        std::fs::rename(&entry, self.entry(key))?;
        // A process that finds the entry before its record waits for the lock.
        self.records.write(&key.0, &self.entry(key).join("base"))
    }
}

/// An installation in progress. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Staging {
    folder: PathBuf,
}

impl Staging {
    /// The folder that the installer may write to.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// The folder of the packages.
    pub(super) fn base(&self) -> PathBuf {
        self.work().join("base")
    }

    /// Temporary files of the installer, on the same disk: archives may exceed the memory.
    pub(super) fn temporary(&self) -> PathBuf {
        self.work().join("tmp")
    }

    /// The log of the installer's search.
    pub(super) fn log(&self) -> PathBuf {
        self.work().join("log")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(cause) = remove(&self.folder) {
            tracing::debug!(%cause, path = %self.folder.display(), "left for the next installation to remove");
        }
    }
}

pub(super) fn remove(folder: &Path) -> io::Result<()> {
    // Code may have created a file or a link there.
    let removed = match std::fs::symlink_metadata(folder) {
        Ok(found) if !found.is_dir() => std::fs::remove_file(folder),
        _ => std::fs::remove_dir_all(folder),
    };
    match removed {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

pub(super) fn make(folder: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        _ => Ok(()),
    }
}

/// Whether the path is a folder and not a link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

pub(super) fn set_mode(folder: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode))
}

/// Creates the cache's folder. Refuses one that others may write to.
pub(super) fn prepare_private(folder: &Path) -> Result<()> {
    let user = rustix::process::geteuid().as_raw();
    prepare(folder, user).map_err(|(path, why, fix)| {
        Error::new(
            ErrorKind::InstallFailed,
            "prepare the cache of packages",
            format!("{}: {why}", path.display()),
        )
        .with_fix(fix)
    })
}

type CacheRefused = (PathBuf, String, String);

/// Creates the folder and its parents, and checks the last two (`sandbox/packages`).
fn prepare(folder: &Path, user: u32) -> std::result::Result<(), CacheRefused> {
    let refused = |path: &Path, why: String, fix: &str| Err((path.to_owned(), why, fix.to_owned()));
    const ELSEWHERE: &str = "set XDG_CACHE_HOME to a folder of yours";
    if !folder.is_absolute() {
        return refused(folder, "not an absolute path".into(), ELSEWHERE);
    }
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    if let Err(cause) = made {
        return refused(folder, cause.to_string(), ELSEWHERE);
    }
    for (number, path) in folder.ancestors().take(2).enumerate() {
        let found = match std::fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(cause) => return refused(path, cause.to_string(), ELSEWHERE),
        };
        let is_own = found.uid() == user || (number > 0 && found.uid() == 0);
        if number == 0 && !found.is_dir() {
            return refused(path, "not a folder".into(), "remove it");
        }
        if !is_own {
            let why = format!("it belongs to user {}, not to user {user}", found.uid());
            return refused(path, why, ELSEWHERE);
        }
        let mode = found.mode() & 0o7777;
        if number == 0 && mode & 0o077 != 0 {
            return refused(
                path,
                format!("it has mode {mode:03o}: others may enter"),
                "chmod 700 it",
            );
        }
        if number > 0 && mode & 0o022 != 0 && mode & 0o1000 == 0 {
            return refused(
                path,
                format!("it has mode {mode:03o}: others may write to it"),
                "chmod go-w it",
            );
        }
    }
    Ok(())
}

pub(super) fn folder_error(path: &Path, cause: &io::Error) -> Error {
    let kind = match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
        _ => ErrorKind::InstallFailed,
    };
    Error::new(
        kind,
        "keep installed packages",
        format!("{}: {cause}", path.display()),
    )
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
