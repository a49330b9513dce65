//! What the kernel counted of a sandbox, from the files of its control groups.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sandbox_core::SandboxStats;

/// The largest file that is read. Those of block devices have a few lines for each device.
const MAX_FILE: u64 = 64 * 1024;

/// The values in these folders: one of version 2, or one of each controller of version 1. Values
/// whose file is missing or unreadable are unknown.
#[must_use]
pub fn cgroup_stats<'p>(folders: impl IntoIterator<Item = &'p Path>) -> SandboxStats {
    let mut stats = SandboxStats::default();
    for folder in folders {
        add(&mut stats, |name| read(&folder.join(name)));
    }
    stats
}

/// The values in the files of a sandbox's control groups, of either version, by path.
pub(crate) fn stats_in(files: &[(&str, String)]) -> SandboxStats {
    let mut stats = SandboxStats::default();
    add(&mut stats, |name| {
        let mut found = files.iter().filter(|(path, _)| path.ends_with(name));
        found.next().map(|(_, text)| text.clone())
    });
    stats
}

/// Adds what is still unknown, from the files of the kernel that `file` reads.
fn add(stats: &mut SandboxStats, file: impl Fn(&str) -> Option<String>) {
    let number = |name: &str| file(name)?.trim().parse::<u64>().ok();
    let cpu = || {
        let micros = file("cpu.stat").and_then(|text| field(&text, "usage_usec"));
        let nanos = || number("cpuacct.usage").map(Duration::from_nanos);
        micros.map(Duration::from_micros).or_else(nanos)
    };
    let disk = |version_2, version_1| {
        let sum = file("io.stat").map(|text| sum_of(&text, version_2));
        let total = || {
            file("blkio.throttle.io_service_bytes_recursive").map(|text| total_of(&text, version_1))
        };
        sum.or_else(total)
    };
    let memory = || number("memory.current").or_else(|| number("memory.usage_in_bytes"));
    let peak = || number("memory.peak").or_else(|| number("memory.max_usage_in_bytes"));
    stats.cpu_time = stats.cpu_time.or_else(cpu);
    stats.memory = stats.memory.or_else(memory);
    stats.memory_peak = stats.memory_peak.or_else(peak);
    stats.processes = stats.processes.or_else(|| number("pids.current"));
    stats.read = stats.read.or_else(|| disk("rbytes=", "Read"));
    stats.written = stats.written.or_else(|| disk("wbytes=", "Write"));
}

fn read(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The number on the line that begins with `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

/// Version 2: the sum over all devices, such as `8:0 rbytes=4096 wbytes=0`.
fn sum_of(text: &str, key: &str) -> u64 {
    let words = text.split_whitespace();
    let values = words.filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
    values.fold(0, u64::saturating_add)
}

/// Version 1: the sum over all devices, such as `8:0 Read 4096`.
fn total_of(text: &str, key: &str) -> u64 {
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let values = lines.filter_map(|words| match words.as_slice() {
        [_, operation, value] if *operation == key => value.parse::<u64>().ok(),
        _ => None,
    });
    values.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("written");
        }
        folder
    }

    #[test]
    fn version_2_has_all_values_in_one_folder() {
        let folder = folder(&[
            ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
            ("memory.current", "4096\n"),
            ("memory.peak", "8192\n"),
            ("pids.current", "3\n"),
            (
                "io.stat",
                "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2\n",
            ),
        ]);
        let stats = cgroup_stats([folder.path()]);
        assert_eq!(stats.cpu_time, Some(Duration::from_micros(1500)));
        assert_eq!((stats.memory, stats.memory_peak), (Some(4096), Some(8192)));
        assert_eq!(stats.processes, Some(3));
        assert_eq!((stats.read, stats.written), (Some(11), Some(22)));
    }

    #[test]
    fn version_1_has_a_folder_for_each_controller() {
        let cpu = folder(&[
            ("cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
            ("cpuacct.usage", "2000000\n"),
        ]);
        let memory = folder(&[
            ("memory.usage_in_bytes", "1\n"),
            ("memory.max_usage_in_bytes", "2\n"),
        ]);
        let disk = folder(&[(
            "blkio.throttle.io_service_bytes_recursive",
            "8:0 Read 5\n8:0 Write 6\n8:0 Total 11\n8:16 Read 1\nTotal 12\n",
        )]);
        let stats = cgroup_stats([cpu.path(), memory.path(), disk.path()]);
        assert_eq!(stats.cpu_time, Some(Duration::from_millis(2)));
        assert_eq!((stats.memory, stats.memory_peak), (Some(1), Some(2)));
        assert_eq!((stats.read, stats.written), (Some(6), Some(6)));
        assert_eq!(stats.processes, None);
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let folder = folder(&[("memory.peak", "max\n"), ("cpu.stat", "")]);
        let missing = folder.path().join("missing");
        let stats = cgroup_stats([folder.path(), &missing]);
        assert_eq!(stats, SandboxStats::default());
    }
}
