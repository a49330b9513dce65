//! Processes that cannot be mistaken for later ones with their numbers.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// A process by its number and when it started, in ticks since the machine's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since the machine's start.
    pub start: u64,
}

impl ProcessId {
    /// The process that has this number now.
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

    /// A descriptor of the process, if it still is there and was noted on this start of the machine.
    #[must_use]
    pub fn open(self) -> Option<OwnedFd> {
        // What stands in a file may be any number.
        let pid = (self.pid > 0).then(|| Pid::from_raw(self.pid)).flatten()?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Looked at with the descriptor open: whoever has the number and that start is who it was opened for.
        (Self::of(self.pid) == Some(self)).then_some(pidfd)
    }
}

/// The process namespace in which numbers of processes are meant, and the start of the machine on which they were noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Era {
    namespace: u64,
    boot: String,
}

impl Era {
    /// This process'.
    #[must_use]
    pub fn current() -> Self {
        static BOOT: OnceLock<String> = OnceLock::new();
        let boot = || {
            // Without it two starts of the machine cannot be told apart, but for the ticks.
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
            id.unwrap_or_default().trim().to_owned()
        };
        Self {
            // Without a procfs, which knows when processes started, too: a number that no namespace has.
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

    /// Reads what [`Era::encode`] wrote.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let (boot, namespace) = text.split_once(':')?;
        Some(Self {
            namespace: u64::from_str_radix(namespace, 16).ok()?,
            boot: boot.to_owned(),
        })
    }
}

/// The process namespace of this process.
#[must_use]
pub fn namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid")
        .ok()
        .map(|found| found.ino())
}

/// When a process started, in ticks since the machine's start.
#[must_use]
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the start is the 20th field after it.
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
