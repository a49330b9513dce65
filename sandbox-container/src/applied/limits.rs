//! Reads the limits of a container's cgroups. A nested cgroup has the lowest limit of the
//! container's groups above it.

use std::fs;
use std::path::Path;

use crate::cgroup::Place;

/// Values from here on mean "no limit": cgroup v1 reports the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;

/// A limit as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Seen {
    /// It cannot be read.
    #[default]
    Unknown,
    /// The kernel has no such file, so it does not count this resource.
    Missing,
    /// No limit is set.
    Unlimited,
    Limit(u64),
}

/// The limits of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Limits {
    /// Bytes.
    pub memory: Seen,
    /// Bytes of memory plus swap.
    pub memory_and_swap: Seen,
    /// Thousandths of a processor.
    pub cpus: Seen,
    /// Processes and threads.
    pub pids: Seen,
}

/// Reads the limits of these cgroups.
pub(super) fn read(memory: Option<&Place>, pids: Option<&Place>, cpu: Option<&Place>) -> Limits {
    let each = |place: Option<&Place>, read: fn(&Path, bool) -> Seen| {
        place.map_or(Seen::Unknown, |place| lowest(place, read))
    };
    Limits {
        memory: each(memory, |folder, version_2| {
            let file = if version_2 {
                "memory.max"
            } else {
                "memory.limit_in_bytes"
            };
            number(&folder.join(file))
        }),
        memory_and_swap: each(memory, swap),
        cpus: each(cpu, quota),
        pids: each(pids, |folder, _| number(&folder.join("pids.max"))),
    }
}

/// The lowest limit of a cgroup and its parents that belong to the container.
fn lowest(place: &Place, read: fn(&Path, bool) -> Seen) -> Seen {
    place
        .own_folders()
        .map(|folder| read(folder, place.version_2))
        .reduce(|one, other| match (one, other) {
            (Seen::Limit(one), Seen::Limit(other)) => Seen::Limit(one.min(other)),
            (Seen::Limit(limit), _) | (_, Seen::Limit(limit)) => Seen::Limit(limit),
            (Seen::Unlimited, _) | (_, Seen::Unlimited) => Seen::Unlimited,
            (one, _) => one,
        })
        .unwrap_or_default()
}

fn text(path: &Path) -> Result<String, Seen> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Seen::Missing,
        _ => Seen::Unknown,
    })
}

fn parse(text: &str) -> Seen {
    match text.trim() {
        "max" | "-1" => Seen::Unlimited,
        text => match text.parse() {
            Ok(limit) if limit >= UNLIMITED => Seen::Unlimited,
            Ok(limit) => Seen::Limit(limit),
            Err(_) => Seen::Unknown,
        },
    }
}

fn number(path: &Path) -> Seen {
    text(path).map_or_else(|seen| seen, |text| parse(&text))
}

/// Cgroup v2 limits swap without memory.
fn swap(folder: &Path, version_2: bool) -> Seen {
    if !version_2 {
        return number(&folder.join("memory.memsw.limit_in_bytes"));
    }
    match (
        number(&folder.join("memory.max")),
        number(&folder.join("memory.swap.max")),
    ) {
        (Seen::Limit(memory), Seen::Limit(swap)) => Seen::Limit(memory.saturating_add(swap)),
        (Seen::Limit(_), other) | (other, _) => other,
    }
}

fn quota(folder: &Path, version_2: bool) -> Seen {
    let (quota, period) = if version_2 {
        match text(&folder.join("cpu.max")) {
            Err(seen) => return seen,
            Ok(text) => match text.trim().split_once(' ') {
                Some((quota, period)) => (parse(quota), parse(period)),
                None => return Seen::Unknown,
            },
        }
    } else {
        let file = |name| number(&folder.join(name));
        (file("cpu.cfs_quota_us"), file("cpu.cfs_period_us"))
    };
    match (quota, period) {
        (Seen::Limit(quota), Seen::Limit(period @ 1..)) => Seen::Limit(quota * 1000 / period),
        (Seen::Limit(_), _) => Seen::Unknown,
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)], version_2: bool) -> Limits {
        let folder = tempfile::tempdir().expect("folder");
        let own = folder.path().join("abc");
        fs::create_dir(&own).expect("group");
        for (name, content) in files {
            fs::write(own.join(name), content).expect("file");
        }
        let place = Place::new(own, version_2, "abc");
        read(Some(&place), Some(&place), Some(&place))
    }

    #[test]
    fn limits_of_version_1() {
        let limits = group(
            &[
                ("memory.limit_in_bytes", "67108864\n"),
                ("memory.memsw.limit_in_bytes", "9223372036854771712\n"),
                ("cpu.cfs_quota_us", "150000\n"),
                ("cpu.cfs_period_us", "100000\n"),
                ("pids.max", "max\n"),
            ],
            false,
        );
        assert_eq!(limits.memory, Seen::Limit(64 << 20));
        assert_eq!(limits.memory_and_swap, Seen::Unlimited);
        assert_eq!(limits.cpus, Seen::Limit(1500));
        assert_eq!(limits.pids, Seen::Unlimited);
    }

    #[test]
    fn limits_of_version_2() {
        let limits = group(
            &[
                ("memory.max", "1048576\n"),
                ("memory.swap.max", "0\n"),
                ("cpu.max", "50000 100000\n"),
                ("pids.max", "20\n"),
            ],
            true,
        );
        assert_eq!(limits.memory_and_swap, Seen::Limit(1 << 20));
        assert_eq!(limits.cpus, Seen::Limit(500));
        assert_eq!(limits.pids, Seen::Limit(20));
        assert_eq!(
            group(&[("cpu.max", "max 100000\n")], true).cpus,
            Seen::Unlimited
        );
    }

    #[test]
    fn what_is_not_there_is_no_limit_of_nothing() {
        assert_eq!(group(&[], true).memory, Seen::Missing);
        assert_eq!(group(&[("memory.max", "much")], true).memory, Seen::Unknown);
        assert_eq!(read(None, None, None), Limits::default());
    }

    #[test]
    fn a_group_within_the_containers_has_its_limits() {
        let folder = tempfile::tempdir().expect("folder");
        let (own, inner) = (
            folder.path().join("abc.scope"),
            folder.path().join("abc.scope/container"),
        );
        fs::create_dir_all(&inner).expect("groups");
        fs::write(folder.path().join("pids.max"), "3").expect("file");
        fs::write(own.join("pids.max"), "20").expect("file");
        fs::write(inner.join("pids.max"), "max").expect("file");
        let place = Place::new(inner, true, "abc");
        assert_eq!(read(None, Some(&place), None).pids, Seen::Limit(20));
    }
}
