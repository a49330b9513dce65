//! The table.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::thread;
use std::time::Duration;

use crate::statistics::Median;
use crate::workload::SANDBOX;

/// A measurement of one contender: the backend, what was measured, whether the contender is a
/// reference tool, and the contender's name. In this order, the sandbox precedes its reference
/// tools.
pub type SeriesKey = (&'static str, &'static str, bool, &'static str);

/// The durations of one measurement of one contender.
struct Series {
    /// How many bytes were moved, for a measurement that is a rate.
    bytes: Option<u64>,
    /// By round.
    samples: BTreeMap<u32, Duration>,
}

/// Everything that was measured, and what was not.
#[derive(Default)]
pub struct Report {
    machine: String,
    series: BTreeMap<SeriesKey, Series>,
    /// Reasons, by the backend or contender that was left out.
    left_out: BTreeMap<String, String>,
    /// Reasons, by the work that failed.
    failed: BTreeMap<String, String>,
}

impl Report {
    /// A report without measurements. Reads the load, so create it before the run.
    pub fn new() -> Self {
        Self {
            machine: machine(),
            ..Self::default()
        }
    }

    /// Adds a duration; `bytes` is how many bytes were moved, for a measurement that is a rate.
    pub fn record(&mut self, key: SeriesKey, bytes: Option<u64>, round: u32, elapsed: Duration) {
        let samples = BTreeMap::new();
        let series = self.series.entry(key);
        let series = series.or_insert(Series { bytes, samples });
        series.samples.insert(round, elapsed);
    }

    /// Records that a backend or a contender is not measured.
    pub fn leave_out(&mut self, name: &str, reason: &str) {
        self.left_out.insert(name.to_owned(), reason.to_owned());
    }

    /// Records a failure of work that should have succeeded.
    pub fn fail(&mut self, work: &str, reason: &str) {
        self.failed.insert(work.to_owned(), reason.to_owned());
    }

    /// Whether any work failed that should have succeeded.
    pub fn has_failures(&self) -> bool {
        !self.failed.is_empty()
    }

    /// The measurements that worked, without times.
    pub fn smoke_summary(&self) -> String {
        let mut measurements: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        for (backend, measurement, is_reference, contender) in self.series.keys() {
            let contender = measurements.entry((backend, is_reference, contender));
            contender.or_default().push(measurement);
        }
        let mut summary = String::new();
        for ((backend, _, contender), measurements) in measurements {
            let measurements = measurements.join(", ");
            summary += &format!("works: {backend}, {contender}: {measurements}\n");
        }
        summary + &self.omissions()
    }

    /// The median of the sandbox's time divided by the reference tool's time in the same round.
    fn ratio(&self, key: SeriesKey, reference: &Series) -> Option<Median> {
        let (backend, measurement, is_reference, _) = key;
        let sandbox = self.series.get(&(backend, measurement, false, SANDBOX));
        let sandbox = sandbox.filter(|_| is_reference)?;
        let pairs = reference.samples.iter().filter_map(|(round, reference)| {
            let sandbox = sandbox.samples.get(round)?;
            Some(sandbox.as_secs_f64() / reference.as_secs_f64())
        });
        Median::of(&pairs.collect::<Vec<_>>())
    }

    fn omissions(&self) -> String {
        let lines = |label: &str, reasons: &BTreeMap<String, String>| -> String {
            let line = |(name, reason)| format!("{label}: {name}: {reason}\n");
            reasons.iter().map(line).collect()
        };
        lines("NOT RUN", &self.left_out) + &lines("FAILED", &self.failed)
    }
}

fn estimate(median: Option<Median>, format: impl Fn(f64) -> String) -> String {
    let Some(Median { value, interval }) = median else {
        return String::new();
    };
    match interval {
        Some((low, high)) => format!("{} [{}, {}]", format(value), format(low), format(high)),
        None => format!("{} [too few runs]", format(value)),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.machine)?;
        writeln!(
            formatter,
            "Medians, with 95 % confidence intervals in brackets."
        )?;
        let mut line = |cells: [&str; 6]| {
            let [backend, measurement, contender, runs, median, ratio] = cells;
            let names = format!("{backend:<16}{measurement:<14}{contender:<24}");
            writeln!(formatter, "{names}{runs:>4}  {median:<36}{ratio}")
        };
        let ratio = "sandbox / contender";
        line(["backend", "measured", "contender", "runs", "median", ratio])?;
        for (key, series) in &self.series {
            let (backend, measurement, _, contender) = *key;
            let seconds = series.samples.values().map(Duration::as_secs_f64);
            let median = Median::of(&seconds.collect::<Vec<_>>());
            let median = estimate(median, |seconds| match series.bytes {
                Some(bytes) => format!("{:.0} MB/s", bytes as f64 / 1e6 / seconds),
                None => format!("{:.3} ms", seconds * 1e3),
            });
            let runs = series.samples.len().to_string();
            let ratio = estimate(self.ratio(*key, series), |ratio| format!("{ratio:.2}"));
            line([backend, measurement, contender, &runs, &median, &ratio])?;
        }
        formatter.write_str(&self.omissions())
    }
}

/// The properties of this machine that affect the numbers. Unreadable ones are left out.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processors = thread::available_parallelism().map_or(0, usize::from);
    let processor = read("/proc/cpuinfo");
    let mut lines = processor.lines();
    let processor = lines.find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("unknown", |(_, name)| name);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let build = if cfg!(debug_assertions) {
        "build without optimization: the times mean little"
    } else {
        "optimized build"
    };
    let kernel = kernel.trim();
    format!("{processors} x {processor}, Linux {kernel}, load {load} before the run, {build}")
}
