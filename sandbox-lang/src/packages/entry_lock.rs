//! A lock that allows one installation of the same packages at a time, across processes.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// How long to wait before the next attempt to take a lock.
const PAUSE: Duration = Duration::from_millis(50);

/// A lock that this process holds. The kernel releases it with the process.
#[derive(Debug)]
pub(super) struct EntryLock {
    _file: File,
}

impl EntryLock {
    /// Takes the lock if it is free.
    pub(super) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = open(path, flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file.into() })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for the lock. The caller sets the time limit.
    pub(super) async fn take(path: &Path) -> io::Result<Self> {
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
