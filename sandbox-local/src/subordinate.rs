//! Ranges of subordinate ids for sandboxes of root. Each sandbox has its own range, so it shares no
//! user with another sandbox or with anything else on the host.
//!
//! A range is taken by a lock (`flock`) on its file in a fixed folder of the host, whichever state
//! folder is set. The kernel releases the lock with the process that holds it, so a killed process
//! frees its ranges. Processes with different `/run` folders, such as in privileged containers, do
//! not see each other's locks.

use std::fs::File;
use std::io::ErrorKind::NotFound;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::state;

use crate::error;

/// Ids per range.
pub(crate) const SIZE: u32 = 65_536;

/// The number of ranges.
const COUNT: u32 = 4_096;

/// The first id of the first range. It is above what distributions allocate in `/etc/subuid` (from
/// 100000) and below 2^31, where some file systems and programs stop. Ranges that `/etc/subuid`
/// gives to a user are skipped.
pub(crate) const FIRST: u32 = 0x3000_0000;

/// The last id of the last range.
pub(crate) const LAST: u32 = FIRST + COUNT * SIZE - 1;

/// A range that this process holds. Dropping it frees the range.
#[derive(Debug)]
pub(crate) struct Range {
    base: u32,
    lock: File,
}

impl Range {
    /// Takes the lowest free range that is not allocated to a user.
    pub(crate) fn take(tier: &str) -> Result<Self> {
        let own = state::folder(None, 0);
        state::prepare(tier, &own, 0).map_err(|error| {
            error.with_fix("make it a folder of root's with mode 700; sandboxes of root keep the locks of their users there, whichever state folder is set")
        })?;
        let mut given = Vec::new();
        for list in GIVEN {
            match std::fs::read_to_string(list) {
                Ok(text) => given.extend(given_in(&text)),
                Err(cause) if cause.kind() == NotFound => {}
                Err(cause) => return Err(error::setup(tier, list, cause)),
            }
        }
        Self::take_in(tier, &own.join("uids"), &given)
    }

    fn take_in(tier: &str, folder: &Path, given: &[RangeInclusive<u64>]) -> Result<Self> {
        let failed = |cause: std::io::Error| {
            error::setup(
                tier,
                format!("subordinate users in {}", folder.display()),
                cause,
            )
        };
        match std::fs::create_dir(folder) {
            Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(cause));
            }
            _ => {}
        }
        let refused = |context: String, fix: &str| {
            Error::new(ErrorKind::SetupFailed, "create sandbox", context)
                .on(tier)
                .with_fix(fix)
        };
        let mut tried = 0;
        for number in (0..COUNT).filter(|number| !is_given(*number, given)) {
            tried += 1;
            if let Some(range) = Self::lock_one(folder, number).map_err(failed)? {
                return Ok(range);
            }
        }
        Err(match tried {
            0 => refused(
                format!(
                    "all subordinate users from {FIRST} to {LAST} are allocated in /etc/subuid or /etc/subgid"
                ),
                "leave some of them out of /etc/subuid and /etc/subgid",
            ),
            _ => refused(
                format!("all {tried} ranges of subordinate users are taken"),
                "end some of the sandboxes that run",
            ),
        })
    }

    /// `None` if another process holds it.
    fn lock_one(folder: &Path, number: u32) -> std::io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path: PathBuf = folder.join(number.to_string());
        let file = open(path, flags, Mode::RUSR | Mode::WUSR)?;
        match flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self {
                base: FIRST + number * SIZE,
                lock: file.into(),
            })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The host id of the range's user and group 0.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// The locked file. A duplicate of the descriptor holds the lock as well.
    pub(crate) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// The content of `uid_map` and `gid_map`.
    pub(crate) fn map(&self) -> String {
        format!("0 {} {SIZE}\n", self.base)
    }
}

/// The files in which administrators allocate subordinate users and groups.
const GIVEN: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// The ids of a list with lines `owner:first:count`. Skips malformed lines, as other readers do.
fn given_in(list: &str) -> impl Iterator<Item = RangeInclusive<u64>> {
    list.lines().filter_map(|line| {
        let mut fields = line.trim().split(':').skip(1).map(str::parse::<u64>);
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Ok(first)), Some(Ok(count @ 1..)), None) => {
                Some(first..=first.saturating_add(count - 1))
            }
            _ => None,
        }
    })
}

fn is_given(number: u32, given: &[RangeInclusive<u64>]) -> bool {
    let first = u64::from(FIRST + number * SIZE);
    let last = first + u64::from(SIZE) - 1;
    given
        .iter()
        .any(|ids| *ids.start() <= last && *ids.end() >= first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path, lists: &str) -> Result<Range> {
        Range::take_in("local", folder, &given_in(lists).collect::<Vec<_>>())
    }

    #[test]
    fn ranges_are_disjoint_and_reused() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("uids");
        let first = take(&folder, "").expect("a range");
        let second = take(&folder, "").expect("a range");
        assert_eq!(first.base(), FIRST);
        assert_eq!(second.base(), FIRST + SIZE);
        assert_eq!(second.map(), "0 805371904 65536\n");
        drop(first);
        let third = take(&folder, "").expect("a range");
        assert_eq!(third.base(), FIRST);
    }

    #[test]
    fn allocated_ranges_are_skipped() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("uids");
        // The last id of the first range, one id of the third, and lines that do not count.
        let lists =
            "alice:805371903:1\nbob:805440000:1\nusers:100000:65536\nnone:805306368:0\n# x:1\n";
        let bases = [(); 2].map(|()| take(&folder, lists).expect("a range"));
        assert_eq!(bases[0].base(), FIRST + SIZE);
        assert_eq!(bases[1].base(), FIRST + 3 * SIZE);
        let all = take(
            &folder,
            "root:1000000:1000000000\nx:1001000000:1000000000\n",
        );
        let error = all.expect_err("nothing is left").to_string();
        assert!(error.contains("are allocated in"), "{error}");
    }

    #[test]
    fn last_range_ends_below_2_to_the_30() {
        assert_eq!(LAST, 0x3fff_ffff);
    }
}
