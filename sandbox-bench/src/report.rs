//! The table and the JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::case::{self, Case, Place};
use crate::driver::Measured;
use crate::failure::{Context, Result};
use crate::machine::Machine;
use crate::memory::Footprint;
use crate::protocol::Sample;
use crate::statistics::Statistics;

/// The version of the JSON's form.
const VERSION: u32 = 1;

/// A line of the table.
type Row = [String; 7];

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    machine: Machine,
    rounds: u32,
    /// All times are nanoseconds.
    cases: Vec<Line>,
    memory_of_an_idle_sandbox: Vec<Footprint>,
    not_run: BTreeMap<&'static str, String>,
    failed: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
struct Line {
    id: &'static str,
    title: &'static str,
    place: Place,
    #[serde(flatten)]
    statistics: Statistics,
    rival: Option<&'static str>,
    /// Our p50 over the rival's.
    ratio: Option<f64>,
    bytes: Option<u64>,
    parts: Vec<Part>,
    /// The largest of the samples' memory of one sandbox, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    samples: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    #[serde(flatten)]
    statistics: Statistics,
}

impl Report {
    /// Of a run of `rounds` rounds on `machine`.
    pub fn new(machine: Machine, rounds: u32, measured: &Measured) -> Self {
        Self {
            version: VERSION,
            machine,
            rounds,
            cases: case::all()
                .filter_map(|case| Line::new(case, measured))
                .collect(),
            memory_of_an_idle_sandbox: measured.memory.clone(),
            not_run: measured.missing.clone(),
            failed: measured.failed.clone(),
        }
    }

    /// Whether something failed that should have worked.
    pub fn failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Writes everything, each sample included.
    ///
    /// # Errors
    /// When the file or its folder cannot be written.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(&format!("create {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(self).context("write JSON")?;
        fs::write(path, text + "\n").context(&format!("write {}", path.display()))
    }
}

impl Line {
    fn new(case: &Case, measured: &Measured) -> Option<Self> {
        let samples = totals(measured.samples.get(case.id)?);
        let statistics = Statistics::of(&samples)?;
        let rival = case
            .rival
            .and_then(|id| Statistics::of(&totals(measured.samples.get(id)?)));
        Some(Self {
            id: case.id,
            title: case.title,
            place: case.place,
            statistics,
            rival: case.rival,
            ratio: rival.map(|rival| statistics.p50 as f64 / rival.p50.max(1) as f64),
            bytes: case.bytes(),
            parts: parts(measured.samples.get(case.id)?),
            memory: memory(measured.samples.get(case.id)?),
            samples,
        })
    }

    fn cells(&self) -> Row {
        let place = match self.place.title() {
            "" => self.title.to_owned(),
            place => format!("{} [{place}]", self.title),
        };
        let speed = |nanoseconds: u64| match self.bytes {
            Some(bytes) => format!("{:.0} MB/s", bytes as f64 * 1e3 / nanoseconds.max(1) as f64),
            None => milliseconds(nanoseconds),
        };
        let (ratio, rival) = match (self.ratio, self.rival) {
            (Some(ratio), Some(rival)) => (format!("{ratio:.2}"), rival.to_owned()),
            _ => (String::new(), String::new()),
        };
        let Statistics {
            runs,
            min,
            p50,
            p95,
            ..
        } = self.statistics;
        [
            place,
            runs.to_string(),
            speed(min),
            speed(p50),
            speed(p95),
            ratio,
            rival,
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header =
            ["", "runs", "best", "p50", "p95", "ratio", "to the p50 of"].map(str::to_owned);
        let mut rows = vec![header];
        for line in &self.cases {
            rows.push(line.cells());
            for Part { name, statistics } in &line.parts {
                let times = [statistics.min, statistics.p50, statistics.p95].map(milliseconds);
                let [min, p50, p95] = times;
                let name = format!("    {name}");
                let nothing = String::new;
                rows.push([name, nothing(), min, p50, p95, nothing(), nothing()]);
            }
            if let Some(memory) = line.memory {
                let mut row = Row::default();
                row[0] = "    memory of one, at most".to_owned();
                row[3] = format!("{} KiB", memory >> 10);
                rows.push(row);
            }
        }
        let Machine {
            processors,
            processor,
            kernel,
            load,
            ..
        } = &self.machine;
        let build = if self.machine.release_build {
            "release"
        } else {
            "debug"
        };
        writeln!(
            formatter,
            "{processors} x {processor}, Linux {kernel}, load {load} before, {build} build"
        )?;
        write_table(formatter, &rows)?;
        for Footprint {
            name,
            first,
            resident,
            proportional,
        } in &self.memory_of_an_idle_sandbox
        {
            let role = if *first { "agent" } else { "helper" };
            let kib = |bytes: u64| format!("{} KiB", bytes >> 10);
            let share = proportional.map_or_else(|| "unknown".to_owned(), kib);
            let name = name.escape_debug();
            writeln!(
                formatter,
                "idle sandbox, {role} {name}: resident {}, proportional {share}",
                kib(*resident)
            )?;
        }
        for (reason, ids) in by_reason(&self.not_run) {
            writeln!(formatter, "NOT RUN: {}: {reason}", ids.join(", "))?;
        }
        for (reason, ids) in by_reason(&self.failed) {
            writeln!(formatter, "FAILED: {}: {reason}", ids.join(", "))?;
        }
        Ok(())
    }
}

/// What has one reason stands on one line.
fn by_reason<'a>(reasons: &'a BTreeMap<&'static str, String>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut grouped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, reason) in reasons {
        grouped.entry(reason).or_default().push(id);
    }
    grouped
}

fn write_table(formatter: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let width = |column: usize| {
        rows.iter()
            .map(|row: &Row| row[column].chars().count())
            .fold(0, usize::max)
    };
    let widths = [0, 1, 2, 3, 4, 5, 6].map(width);
    for row in rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for column in 1..6 {
            line.push_str(&format!("  {:>1$}", row[column], widths[column]));
        }
        line.push_str("  ");
        line.push_str(&row[6]);
        writeln!(formatter, "{}", line.trim_end())?;
    }
    Ok(())
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3} ms", nanoseconds as f64 / 1e6)
}

fn totals(samples: &[Sample]) -> Vec<u64> {
    samples.iter().map(|sample| sample.nanoseconds).collect()
}

fn memory(samples: &[Sample]) -> Option<u64> {
    samples.iter().filter_map(|sample| sample.memory).max()
}

/// The parts of an operation in their order, over all samples.
fn parts(samples: &[Sample]) -> Vec<Part> {
    let names = samples
        .first()
        .map(|sample| sample.parts.as_slice())
        .unwrap_or_default();
    let of = |index: usize| -> Vec<u64> {
        samples
            .iter()
            .filter_map(|sample| Some(sample.parts.get(index)?.1))
            .collect()
    };
    names
        .iter()
        .enumerate()
        .filter_map(|(index, (name, _))| {
            Some(Part {
                name: name.clone(),
                statistics: Statistics::of(&of(index))?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(nanoseconds: u64, create: u64) -> Sample {
        Sample {
            nanoseconds,
            parts: vec![("create".to_owned(), create)],
            memory: Some(create * 2048),
        }
    }

    #[test]
    fn a_report_has_ratios_parts_and_what_did_not_run() {
        let mut measured = Measured::default();
        measured.samples.insert("bwrap", vec![sample(4_000_000, 1)]);
        let ours = [2_000_000, 3_000_000, 1_000_000].map(|total| sample(total, total / 2));
        measured.samples.insert("one-shot", ours.to_vec());
        measured.missing.insert("spawn", "not there".to_owned());
        measured.missing.insert("echo", "not there".to_owned());
        let report = Report::new(Machine::this(), 3, &measured);
        assert!(!report.failed());
        let text = report.to_string();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let has = |line: &str| lines.contains(&line.split(' ').collect::<Vec<_>>());
        assert!(
            has("local, one-shot, in process 3 1.000 ms 2.000 ms 3.000 ms 0.50 bwrap"),
            "{text}"
        );
        assert!(has("create 0.500 ms 1.000 ms 1.500 ms"), "{text}");
        assert!(has("memory of one, at most 3000000 KiB"), "{text}");
        assert!(
            text.ends_with("NOT RUN: echo, spawn: not there\n"),
            "{text}"
        );
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["cases"][1]["p50"], 2_000_000);
        assert_eq!(json["cases"][1]["ratio"], 0.5);
        assert_eq!(json["cases"][1]["samples"][1], 3_000_000);
        measured.failed.insert("output", "lost".to_owned());
        assert!(Report::new(Machine::this(), 3, &measured).failed());
    }
}
