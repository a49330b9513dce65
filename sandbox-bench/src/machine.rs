//! What of this machine a reader needs to judge the numbers.

use std::fs;
use std::thread;

use serde::Serialize;

/// The machine, without anything that names it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: usize,
    /// The processor's name.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// Memory in bytes.
    pub memory: u64,
    /// Processes that waited for a processor in the last minute, on average.
    pub load: f64,
    /// Whether the numbers come from an optimized build.
    pub release_build: bool,
}

impl Machine {
    /// Whether so much else runs that ratios between few and many processes mean little.
    pub fn is_busy(&self) -> bool {
        self.load > self.processors as f64 / 2.0
    }

    /// This one. What cannot be read is empty or 0: it only describes the numbers.
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: String, key: &str| {
            let line = text
                .lines()
                .find(|line| line.starts_with(key))
                .unwrap_or_default();
            line.split_once(':')
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let memory = value(read("/proc/meminfo"), "MemTotal");
        Self {
            processors: thread::available_parallelism().map_or(0, |count| count.get()),
            processor: value(read("/proc/cpuinfo"), "model name"),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory: memory
                .trim_end_matches(" kB")
                .parse()
                .map_or(0, |kib: u64| kib << 10),
            load: load(&read("/proc/loadavg")),
            release_build: !cfg!(debug_assertions),
        }
    }
}

fn load(text: &str) -> f64 {
    text.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::this();
        assert!(
            machine.processors > 0 && machine.memory > 1 << 20,
            "{machine:?}"
        );
        assert!(!machine.kernel.is_empty());
        assert_eq!(load("1.25 0.5 0.1 2/99 12\n"), 1.25);
    }
}
