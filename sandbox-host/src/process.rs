//! Identifies processes across reuse of process IDs.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// A process ID together with the process's start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessId {
    /// The process ID.
    pub pid: i32,
    /// The start time, in clock ticks since boot.
    pub start: u64,
}

impl ProcessId {
    /// The process that has this ID now.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let start = start_of(pid.unsigned_abs())?;
        Some(Self { pid, start })
    }

    /// This process.
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::of(i32::try_from(std::process::id()).ok()?)
    }

    /// A pidfd of the process, if it still runs and was recorded since the last boot.
    #[must_use]
    pub fn open(self) -> Option<OwnedFd> {
        // A file may contain any number.
        let pid = (self.pid > 0).then(|| Pid::from_raw(self.pid)).flatten()?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Checked with the pidfd open: a process with this ID and start time is the one that the
        // pidfd refers to.
        (Self::of(self.pid) == Some(self)).then_some(pidfd)
    }
}

/// The PID namespace and the boot in which process IDs were recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Era {
    namespace: u64,
    boot: String,
}

impl Era {
    /// The era of this process.
    #[must_use]
    pub fn current() -> Self {
        static BOOT: OnceLock<String> = OnceLock::new();
        let boot = || {
            // Without a boot ID, only the start times distinguish boots.
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
            id.unwrap_or_default().trim().to_owned()
        };
        Self {
            // Without procfs, start times are unknown, too: use a number that no namespace has.
            namespace: namespace().unwrap_or(0),
            boot: BOOT.get_or_init(boot).clone(),
        }
    }

    /// The same boot in another PID namespace.
    #[must_use]
    pub(crate) fn in_namespace(mut self, namespace: u64) -> Self {
        self.namespace = namespace;
        self
    }

    /// The inode number of the PID namespace; 0 without procfs.
    #[must_use]
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// As one word without spaces, for a label.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{}:{:x}", self.boot, self.namespace)
    }

    /// Decodes the output of [`Era::encode`].
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let (boot, namespace) = text.split_once(':')?;
        Some(Self {
            namespace: u64::from_str_radix(namespace, 16).ok()?,
            boot: boot.to_owned(),
        })
    }
}

/// The PID namespace of this process.
#[must_use]
pub fn namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid")
        .ok()
        .map(|found| found.ino())
}

/// The start time of a process, in clock ticks since boot.
#[must_use]
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; the start time is the 20th field after it.
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_with_the_number_is_not_opened() {
        let own = i32::try_from(std::process::id()).expect("a small number");
        let own = ProcessId::of(own).expect("it runs");
        assert!(own.open().is_some());
        let earlier = ProcessId {
            start: own.start - 1,
            ..own
        };
        assert!(earlier.open().is_none());
        for pid in [0, -1, i32::MAX] {
            assert!(ProcessId { pid, start: 0 }.open().is_none());
        }
        assert_eq!(Era::current(), Era::current());
        let word = Era::current().encode();
        assert_eq!(Era::decode(&word), Some(Era::current()));
        assert_eq!(Era::decode("x"), None);
    }
}
