//! The folder with one folder per detached sandbox of this user.

use std::fs::File;
use std::io::ErrorKind as ErrorKindOfIo;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use sandbox_agent::protocol::keep::files;
use sandbox_core::{Error, ErrorKind, Result, SandboxInfo, SandboxSpec, SandboxState};
use sandbox_host::state::{name_is_taken, not_found, read_private};

use super::record::LocalRecord;
use crate::error;

/// A folder without a record and lock holder counts as leftover only from this age: its supervisor
/// may be about to lock it.
const NEWBORN_AGE: Duration = Duration::from_secs(10);

/// The maximum size of a record in bytes. Real ones are far smaller.
const RECORD_LIMIT: u64 = 4 * 1024 * 1024;

/// The folder of detached sandboxes in a state folder, as one tier uses it.
#[derive(Debug, Clone)]
pub(crate) struct SandboxesFolder {
    pub(crate) tier: String,
    folder: PathBuf,
}

/// The state of one sandbox at the time of the call.
#[derive(Debug)]
pub(crate) struct SandboxEntry {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) supervisor: SupervisorState,
    /// `None` before the handover and during removal.
    pub(crate) record: Option<Result<LocalRecord>>,
}

impl SandboxEntry {
    /// The entry in a list of sandboxes if its record cannot be read.
    pub(crate) fn unknown(&self, tier: &str) -> SandboxInfo {
        let changed = std::fs::metadata(&self.folder).and_then(|folder| folder.modified());
        let created = changed.unwrap_or(SystemTime::UNIX_EPOCH);
        SandboxInfo::new(&self.name, tier, SandboxState::Unknown, created)
    }
}

/// Whether a supervisor holds the lock of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SupervisorState {
    /// A supervisor holds it.
    Alive,
    /// The lock is free.
    Gone,
    /// The lock is free, but the folder is so young that its supervisor may be about to take it.
    Newborn,
}

impl SandboxesFolder {
    pub(crate) fn new(tier: &str, state: &Path) -> Self {
        Self {
            tier: tier.to_owned(),
            folder: state.join("sandboxes"),
        }
    }

    /// Creates the folder if missing.
    pub(crate) fn prepare(&self) -> Result<()> {
        match std::fs::DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(cause) if cause.kind() != ErrorKindOfIo::AlreadyExists => Err(error::setup(
                &self.tier,
                self.folder.display().to_string(),
                cause,
            )),
            _ => Ok(()),
        }
    }

    /// The folder of the sandbox with this name, whether or not it exists.
    pub(crate) fn folder_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The sandbox with this name, of any tier. `None` if nothing of it exists.
    pub(crate) fn entry(&self, name: &str) -> Result<Option<SandboxEntry>> {
        let folder = self.folder_of(name);
        let Some(supervisor) = self.supervisor_of(&folder)? else {
            return Ok(None);
        };
        Ok(Some(SandboxEntry {
            name: name.to_owned(),
            supervisor,
            record: self.record(&folder)?,
            folder,
        }))
    }

    /// All sandboxes of every tier, sorted by name.
    pub(crate) fn entries(&self) -> Result<Vec<SandboxEntry>> {
        let folder = match std::fs::read_dir(&self.folder) {
            Err(cause) if cause.kind() == ErrorKindOfIo::NotFound => return Ok(Vec::new()),
            folder => folder.map_err(|cause| self.unreadable(&self.folder, cause))?,
        };
        let mut entries = Vec::new();
        for entry in folder {
            let entry = entry.map_err(|cause| self.unreadable(&self.folder, cause))?;
            // Names that are not sandbox names do not belong to us.
            let name = entry.file_name().into_string().unwrap_or_default();
            if SandboxSpec::new(&name).validate().is_ok() {
                entries.extend(self.entry(&name)?);
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn supervisor_of(&self, folder: &Path) -> Result<Option<SupervisorState>> {
        let lock = match open_lock(folder) {
            Ok(lock) => lock,
            Err(cause) if cause.kind() == ErrorKindOfIo::NotFound => {
                return self.state_without_lock(folder);
            }
            Err(cause) => return Err(self.unreadable(folder, cause)),
        };
        // Shared, so that concurrent readers do not take each other for a supervisor.
        match flock(lock.as_fd(), FlockOperation::NonBlockingLockShared) {
            Ok(()) if age(folder).is_some_and(|age| age < NEWBORN_AGE) => {
                Ok(Some(self.state_of_young_folder(folder)))
            }
            Ok(()) => Ok(Some(SupervisorState::Gone)),
            Err(Errno::WOULDBLOCK) => Ok(Some(SupervisorState::Alive)),
            Err(errno) => Err(self.unreadable(folder, errno.into())),
        }
    }

    /// A young folder with a free lock: the supervisor is about to lock it, unless the handover is
    /// long done.
    fn state_of_young_folder(&self, folder: &Path) -> SupervisorState {
        if folder.join(name_of(files::RECORD)).exists() {
            SupervisorState::Gone
        } else {
            SupervisorState::Newborn
        }
    }

    fn state_without_lock(&self, folder: &Path) -> Result<Option<SupervisorState>> {
        match std::fs::symlink_metadata(folder) {
            Ok(_) if age(folder).is_some_and(|age| age < NEWBORN_AGE) => {
                Ok(Some(SupervisorState::Newborn))
            }
            Ok(_) => Ok(Some(SupervisorState::Gone)),
            Err(cause) if cause.kind() == ErrorKindOfIo::NotFound => Ok(None),
            Err(cause) => Err(self.unreadable(folder, cause)),
        }
    }

    fn record(&self, folder: &Path) -> Result<Option<Result<LocalRecord>>> {
        let path = folder.join(name_of(files::RECORD));
        match read_private(&path, RECORD_LIMIT) {
            Ok(text) => Ok(Some(LocalRecord::decode(&self.tier, &path, &text))),
            Err(cause) if cause.kind() == ErrorKindOfIo::NotFound => Ok(None),
            Err(cause) => Err(self.unreadable(&path, cause)),
        }
    }

    fn unreadable(&self, path: &Path, cause: std::io::Error) -> Error {
        let context = path.display().to_string();
        Error::new(ErrorKind::Io, "look for sandboxes", context)
            .on(&self.tier)
            .with_source(cause)
    }

    /// The error for an unknown name.
    pub(crate) fn not_found(&self, name: &str) -> Error {
        not_found(&self.tier, name)
    }

    /// The error for a name in use.
    pub(crate) fn name_is_taken(&self, name: &str) -> Error {
        let ended = self.entry(name).is_ok_and(|entry| {
            entry.is_some_and(|entry| entry.supervisor == SupervisorState::Gone)
        });
        name_is_taken(&self.tier, name, ended)
    }
}

/// A file name of the agent's protocol as a path.
pub(crate) fn name_of(name: &std::ffi::CStr) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))
}

/// Opens the lock file of a sandbox, which its supervisor has created.
pub(crate) fn open_lock(folder: &Path) -> std::io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(folder.join(name_of(files::LOCK)))
}

/// How long ago an entry was last added to or removed from a folder. `None` if that is in the
/// future or the folder is gone.
fn age(folder: &Path) -> Option<Duration> {
    let metadata = std::fs::symlink_metadata(folder).ok()?;
    let changed =
        SystemTime::UNIX_EPOCH + Duration::from_secs(metadata.ctime().max(0).unsigned_abs());
    SystemTime::now().duration_since(changed).ok()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{AtFlags, CWD, Timestamps, utimensat};

    use super::*;

    #[test]
    fn state_follows_from_lock_and_age() {
        let state = tempfile::tempdir().expect("a folder");
        let sandboxes = SandboxesFolder::new("local", state.path());
        assert!(sandboxes.entries().expect("readable").is_empty());
        sandboxes.prepare().expect("made");
        sandboxes.prepare().expect("found");
        assert!(sandboxes.entry("one").expect("readable").is_none());
        let folder = sandboxes.folder_of("one");
        std::fs::create_dir(&folder).expect("made");
        let state_of = || {
            sandboxes
                .entry("one")
                .expect("readable")
                .expect("there")
                .supervisor
        };
        assert_eq!(state_of(), SupervisorState::Newborn);
        let lock = File::create(folder.join("lock")).expect("made");
        assert_eq!(state_of(), SupervisorState::Newborn);
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("locked");
        assert_eq!(state_of(), SupervisorState::Alive);
        drop(lock);
        std::fs::write(folder.join("sandbox.json"), "{").expect("written");
        let entry = sandboxes.entry("one").expect("readable").expect("there");
        assert_eq!(entry.supervisor, SupervisorState::Gone);
        let error = entry.record.expect("there").expect_err("not JSON");
        assert!(error.context().contains("sandbox.json"), "{error}");
        assert!(
            sandboxes
                .name_is_taken("one")
                .to_string()
                .contains("rm one")
        );
        std::fs::create_dir(sandboxes.folder_of(".hidden")).expect("made");
        assert_eq!(sandboxes.entries().expect("readable").len(), 1);
    }

    #[test]
    fn age_of_a_missing_folder_is_unknown() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = Timestamps {
            last_access: rustix::fs::Timespec {
                tv_sec: 0,
                tv_nsec: rustix::fs::UTIME_NOW,
            },
            last_modification: rustix::fs::Timespec {
                tv_sec: 0,
                tv_nsec: rustix::fs::UTIME_NOW,
            },
        };
        utimensat(CWD, folder.path(), &now, AtFlags::empty()).expect("touched");
        assert!(age(folder.path()).is_some_and(|age| age < NEWBORN_AGE));
        assert_eq!(age(&folder.path().join("none")), None);
    }
}
