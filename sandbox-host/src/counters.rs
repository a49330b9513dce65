//! The kernel's counters of denials.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// What the kernel has denied a sandbox's code so far. Counters only grow; `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Forks beyond the control group's process limit.
    pub processes: Option<u64>,
    /// Attempts to reach an address without a route in the sandbox's network.
    pub unreachable: Option<u64>,
}

impl Counters {
    /// Counters with these values.
    #[must_use]
    pub fn new(processes: Option<u64>, unreachable: Option<u64>) -> Self {
        Self {
            processes,
            unreachable,
        }
    }

    /// The counters of a sandbox in which nothing has run yet.
    pub(crate) const FRESH: Self = Self {
        processes: Some(0),
        unreachable: Some(0),
    };

    /// How much each counter has grown since `before`, as far as known.
    pub(crate) fn since(self, before: Self) -> [u64; 2] {
        let grown = |now: Option<u64>, before: Option<u64>| match (now, before) {
            (Some(now), Some(before)) => now.saturating_sub(before),
            // Unknown before or now.
            _ => 0,
        };
        [
            grown(self.processes, before.processes),
            grown(self.unreachable, before.unreachable),
        ]
    }

    /// The larger value of each counter.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            processes: self.processes.max(other.processes),
            unreachable: self.unreachable.max(other.unreachable),
        }
    }
}

/// The number of processes of a control group that the kernel killed for memory. `file` is the
/// group's `memory.events` (version 2) or `memory.oom_control` (version 1), and may stay open.
/// `None` if the file does not contain the count.
#[must_use]
pub fn memory_kills(file: &File) -> Option<u64> {
    sandbox_agent::protocol::memory_kills(beginning(file)?.as_bytes())
}

/// The kernel's files for [`Counters`], kept open for reads after each execution. They also keep
/// the sandbox's network namespace alive.
#[derive(Debug)]
pub struct CounterFiles {
    processes: Option<File>,
    version_4: Option<File>,
    version_6: Option<File>,
}

impl CounterFiles {
    /// Opens the files of a control group with a process limit (its folder, for the controller
    /// `pids` or version 2) and of a process's network namespace. The process must be visible in
    /// the host's `/proc`, and the namespace must be the sandbox's own. Counters of files that
    /// cannot be opened are unknown.
    #[must_use]
    pub fn open(process_limit: Option<&Path>, process: Option<i32>) -> Self {
        Self {
            processes: process_limit.and_then(|folder| open(&folder.join(PROCESSES))),
            version_4: process.and_then(|pid| open(&network(pid, "snmp"))),
            version_6: process.and_then(|pid| open(&network(pid, "snmp6"))),
        }
    }

    /// Reads the current values.
    #[must_use]
    pub fn read(&self) -> Counters {
        let version_4 = self.version_4.as_ref();
        Counters::new(
            self.processes.as_ref().and_then(refused_in),
            version_4.and_then(|file| unreachable_in(file, self.version_6.as_ref())),
        )
    }
}

/// The control group's file with the count of denied forks.
const PROCESSES: &str = "pids.events";

fn network(pid: i32, file: &str) -> PathBuf {
    format!("/proc/{pid}/net/{file}").into()
}

fn open(path: &Path) -> Option<File> {
    File::open(path).ok()
}

fn refused_in(file: &File) -> Option<u64> {
    let events = beginning(file)?;
    let line = events.lines().find_map(|line| line.strip_prefix("max "))?;
    line.trim().parse().ok()
}

/// A kernel without IPv6 lacks its file, and then no IPv6 packet was sent.
fn unreachable_in(version_4: &File, version_6: Option<&File>) -> Option<u64> {
    let known = no_routes_4(&beginning(version_4)?)?;
    let more = version_6.and_then(|file| no_routes_6(&beginning(file)?));
    Some(more.map_or(known, |more| known.saturating_add(more)))
}

/// Reads the beginning of a kernel file with a single read.
fn beginning(file: &File) -> Option<String> {
    let mut bytes = [0; 2048];
    let count = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

/// Parses pairs of lines per protocol: names, then values.
fn no_routes_4(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|name| name == "OutNoRoutes")?;
    values.split(' ').nth(place)?.parse().ok()
}

fn no_routes_6(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("Ip6OutNoRoutes"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let snmp =
            "Ip: Forwarding DefaultTTL OutNoRoutes ReasmTimeout\nIp: 1 64 7 0\nIcmp: A\nIcmp: 3\n";
        assert_eq!(no_routes_4(snmp), Some(7));
        assert_eq!(no_routes_4("Ip: Forwarding\nIp: 1\n"), None);
        assert_eq!(no_routes_4(""), None);
        let snmp6 = "Ip6InReceives                   \t3\nIp6OutNoRoutes                  \t5\n";
        assert_eq!(no_routes_6(snmp6), Some(5));
        assert_eq!(no_routes_6("x\n"), None);
        // Our own namespace has these files, too.
        let files = CounterFiles::open(None, Some(std::process::id().cast_signed()));
        // Twice, since the files stay open.
        for _ in 0..2 {
            let counters = files.read();
            assert!(counters.unreachable.is_some() && counters.processes.is_none());
        }
        for nothing in [None, Some(-1)] {
            let files = CounterFiles::open(None, nothing);
            assert_eq!(files.read(), Counters::default());
        }
    }

    #[test]
    fn the_groups_counter_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let read = || CounterFiles::open(Some(folder.path()), None).read();
        assert_eq!(read(), Counters::default());
        std::fs::write(folder.path().join("pids.events"), "max 12\nmax.imposed 3\n").unwrap();
        assert_eq!(read(), Counters::new(Some(12), None));
    }

    #[test]
    fn a_counter_that_is_lost_has_not_grown() {
        let (none, some) = (Counters::default(), Counters::new(Some(3), Some(9)));
        assert_eq!(none.since(some), [0, 0]);
        assert_eq!(some.since(none), [0, 0], "since when is not known");
        assert_eq!(some.since(Counters::FRESH), [3, 9]);
        assert_eq!(some.since(Counters::new(Some(1), None)), [2, 0]);
        assert_eq!(none.max(some), some);
    }
}
