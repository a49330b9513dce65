//! Reads the limits of a container's cgroups. A nested cgroup has the lowest limit of the
//! container's groups above it.

use std::fs;
use std::path::Path;

use crate::cgroup::Cgroup;

/// Values from here on mean "no limit": cgroup v1 reports the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;

/// A limit as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ObservedLimit {
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
pub(super) struct ObservedLimits {
    /// Bytes.
    pub memory: ObservedLimit,
    /// Bytes of memory plus swap.
    pub memory_and_swap: ObservedLimit,
    /// Thousandths of a processor.
    pub cpus: ObservedLimit,
    /// Processes and threads.
    pub pids: ObservedLimit,
}

/// Reads the limits of these cgroups.
pub(super) fn read(
    memory: Option<&Cgroup>,
    pids: Option<&Cgroup>,
    cpu: Option<&Cgroup>,
) -> ObservedLimits {
    let each = |cgroup: Option<&Cgroup>, read: fn(&Path, bool) -> ObservedLimit| {
        cgroup.map_or(ObservedLimit::Unknown, |cgroup| lowest(cgroup, read))
    };
    ObservedLimits {
        memory: each(memory, |folder, version_2| {
            let file = if version_2 {
                "memory.max"
            } else {
                "memory.limit_in_bytes"
            };
            limit_in(&folder.join(file))
        }),
        memory_and_swap: each(memory, memory_and_swap),
        cpus: each(cpu, quota),
        pids: each(pids, |folder, _| limit_in(&folder.join("pids.max"))),
    }
}

/// The lowest limit of a cgroup and its parents that belong to the container.
fn lowest(cgroup: &Cgroup, read: fn(&Path, bool) -> ObservedLimit) -> ObservedLimit {
    cgroup
        .own_ancestors()
        .map(|folder| read(folder, cgroup.version_2))
        .reduce(|left, right| match (left, right) {
            (ObservedLimit::Limit(left), ObservedLimit::Limit(right)) => {
                ObservedLimit::Limit(left.min(right))
            }
            (ObservedLimit::Limit(limit), _) | (_, ObservedLimit::Limit(limit)) => {
                ObservedLimit::Limit(limit)
            }
            (ObservedLimit::Unlimited, _) | (_, ObservedLimit::Unlimited) => {
                ObservedLimit::Unlimited
            }
            (left, _) => left,
        })
        .unwrap_or_default()
}

fn text(path: &Path) -> Result<String, ObservedLimit> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ObservedLimit::Missing,
        _ => ObservedLimit::Unknown,
    })
}

fn parse(text: &str) -> ObservedLimit {
    match text.trim() {
        "max" | "-1" => ObservedLimit::Unlimited,
        text => match text.parse() {
            Ok(limit) if limit >= UNLIMITED => ObservedLimit::Unlimited,
            Ok(limit) => ObservedLimit::Limit(limit),
            Err(_) => ObservedLimit::Unknown,
        },
    }
}

fn limit_in(path: &Path) -> ObservedLimit {
    text(path).map_or_else(|unreadable| unreadable, |text| parse(&text))
}

/// Cgroup v2 limits swap without memory.
fn memory_and_swap(folder: &Path, version_2: bool) -> ObservedLimit {
    if !version_2 {
        return limit_in(&folder.join("memory.memsw.limit_in_bytes"));
    }
    match (
        limit_in(&folder.join("memory.max")),
        limit_in(&folder.join("memory.swap.max")),
    ) {
        (ObservedLimit::Limit(memory), ObservedLimit::Limit(swap)) => {
            ObservedLimit::Limit(memory.saturating_add(swap))
        }
        (ObservedLimit::Limit(_), other) | (other, _) => other,
    }
}

fn quota(folder: &Path, version_2: bool) -> ObservedLimit {
    let (quota, period) = if version_2 {
        match text(&folder.join("cpu.max")) {
            Err(unreadable) => return unreadable,
            Ok(text) => match text.trim().split_once(' ') {
                Some((quota, period)) => (parse(quota), parse(period)),
                None => return ObservedLimit::Unknown,
            },
        }
    } else {
        let file = |name| limit_in(&folder.join(name));
        (file("cpu.cfs_quota_us"), file("cpu.cfs_period_us"))
    };
    match (quota, period) {
        (ObservedLimit::Limit(quota), ObservedLimit::Limit(period @ 1..)) => {
            ObservedLimit::Limit(quota * 1000 / period)
        }
        (ObservedLimit::Limit(_), _) => ObservedLimit::Unknown,
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)], version_2: bool) -> ObservedLimits {
        let folder = tempfile::tempdir().expect("folder");
        let own = folder.path().join("abc");
        fs::create_dir(&own).expect("group");
        for (name, content) in files {
            fs::write(own.join(name), content).expect("file");
        }
        let cgroup = Cgroup::new(own, version_2, "abc");
        read(Some(&cgroup), Some(&cgroup), Some(&cgroup))
    }

    #[test]
    fn cgroup_v1_limits_are_read() {
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
        assert_eq!(limits.memory, ObservedLimit::Limit(64 << 20));
        assert_eq!(limits.memory_and_swap, ObservedLimit::Unlimited);
        assert_eq!(limits.cpus, ObservedLimit::Limit(1500));
        assert_eq!(limits.pids, ObservedLimit::Unlimited);
    }

    #[test]
    fn cgroup_v2_limits_are_read() {
        let limits = group(
            &[
                ("memory.max", "1048576\n"),
                ("memory.swap.max", "0\n"),
                ("cpu.max", "50000 100000\n"),
                ("pids.max", "20\n"),
            ],
            true,
        );
        assert_eq!(limits.memory_and_swap, ObservedLimit::Limit(1 << 20));
        assert_eq!(limits.cpus, ObservedLimit::Limit(500));
        assert_eq!(limits.pids, ObservedLimit::Limit(20));
        assert_eq!(
            group(&[("cpu.max", "max 100000\n")], true).cpus,
            ObservedLimit::Unlimited
        );
    }

    #[test]
    fn absent_file_is_missing_and_invalid_value_unknown() {
        assert_eq!(group(&[], true).memory, ObservedLimit::Missing);
        assert_eq!(
            group(&[("memory.max", "much")], true).memory,
            ObservedLimit::Unknown
        );
        assert_eq!(read(None, None, None), ObservedLimits::default());
    }

    #[test]
    fn nested_cgroup_has_the_limits_of_its_parents() {
        let folder = tempfile::tempdir().expect("folder");
        let (own, inner) = (
            folder.path().join("abc.scope"),
            folder.path().join("abc.scope/container"),
        );
        fs::create_dir_all(&inner).expect("groups");
        fs::write(folder.path().join("pids.max"), "3").expect("file");
        fs::write(own.join("pids.max"), "20").expect("file");
        fs::write(inner.join("pids.max"), "max").expect("file");
        let cgroup = Cgroup::new(inner, true, "abc");
        assert_eq!(
            read(None, Some(&cgroup), None).pids,
            ObservedLimit::Limit(20)
        );
    }
}
