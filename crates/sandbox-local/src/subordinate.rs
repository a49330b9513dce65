//! Ranges of subordinate users for sandboxes that root makes: one range each, so that no two sandboxes, and no sandbox and
//! anything else on the host, share a user.
//!
//! A range is taken by a lock (`flock`) on its file in the state folder. The kernel drops the lock with the process that
//! holds it, so a killed host frees its ranges.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use sandbox_core::{Error, ErrorKind, Result};

use crate::error;

/// How many ids a range has.
pub(crate) const SIZE: u32 = 65_536;

/// How many ranges there are.
const COUNT: u32 = 4_096;

/// The first id of the first range. Above what distributions hand out in /etc/subuid (100000 on) and below 2^31, where some
/// file systems and programs stop.
pub(crate) const FIRST: u32 = 0x3000_0000;

/// The last id of the last range.
pub(crate) const LAST: u32 = FIRST + COUNT * SIZE - 1;

/// A range that this process holds. Dropping it frees it.
#[derive(Debug)]
pub(crate) struct Range {
    base: u32,
    lock: File,
}

impl Range {
    /// Takes the lowest range that is free.
    pub(crate) fn take(tier: &str, state: &Path) -> Result<Self> {
        let folder = state.join("uids");
        let failed = |cause: std::io::Error| {
            error::setup(
                tier,
                format!("subordinate users in {}", folder.display()),
                cause,
            )
        };
        match std::fs::create_dir(&folder) {
            Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(cause));
            }
            _ => {}
        }
        for number in 0..COUNT {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = open(
                folder.join(number.to_string()),
                flags,
                Mode::RUSR | Mode::WUSR,
            )
            .map_err(|errno| failed(errno.into()))?;
            match flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        base: FIRST + number * SIZE,
                        lock: file.into(),
                    });
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
        Err(Error::new(
            ErrorKind::SetupFailed,
            "create sandbox",
            format!("all {COUNT} ranges of subordinate users are taken"),
        )
        .on(tier)
        .with_fix("end some of the sandboxes that run"))
    }

    /// The host's id of the range's user and group 0.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// What holds it: a duplicate holds it as well.
    pub(crate) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// The text of `uid_map` and `gid_map`.
    pub(crate) fn map(&self) -> String {
        format!("0 {} {SIZE}\n", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_come_back() {
        let state = tempfile::tempdir().expect("a folder");
        let first = Range::take("local", state.path()).expect("a range");
        let second = Range::take("local", state.path()).expect("a range");
        assert_eq!(first.base(), FIRST);
        assert_eq!(second.base(), FIRST + SIZE);
        assert_eq!(second.map(), "0 805371904 65536\n");
        drop(first);
        let third = Range::take("local", state.path()).expect("a range");
        assert_eq!(third.base(), FIRST);
    }

    #[test]
    fn the_last_range_ends_below_the_ids_that_overflow() {
        assert_eq!(LAST, 0x3fff_ffff);
    }
}
