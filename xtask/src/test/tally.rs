//! Reads what test binaries print, and counts.
//!
//! Rust's test harness knows no test that finds out at run time that it cannot run here. Such a
//! test prints a line `NOT RUN: WHAT: REASON` and returns; it is counted as skipped, not as passed.

use std::collections::BTreeSet;
use std::fmt;

/// What a test prints that could not run here.
pub const NOT_RUN: &str = "NOT RUN: ";
/// Most characters of a reason in the summary; the whole stands in the test's output.
const LONGEST_REASON: usize = 300;
/// Most lines of what a failed test has said in the summary; the whole stands in the test's output.
const LONGEST_REPORT: usize = 40;

/// The sum over test binaries.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests that failed, and binaries that died before they could say how many did.
    pub failed: u64,
    /// Tests that are ignored or said that they could not run.
    pub skipped: u64,
    /// Each binary's own last line, and where it came from.
    pub results: Vec<String>,
    /// The names of tests that failed, with their binary.
    pub failures: Vec<String>,
    /// What those have said, as far as it is known: a headline, then lines.
    pub reports: Vec<Vec<String>>,
    /// What did not run, each line once.
    pub not_run: BTreeSet<String>,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.results.extend(other.results);
        self.failures.extend(other.failures);
        self.reports.extend(other.reports);
        self.not_run.extend(other.not_run);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// Follows the output of one or more test binaries, line by line.
#[derive(Debug)]
pub struct Reader {
    label: String,
    binary: String,
    place: Place,
    /// How many tests the binary has announced.
    expected: u64,
    /// Tests that passed by the harness' account and said that they did not run.
    contradicted: u64,
    tally: Tally,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No binary runs.
    Outside,
    /// A binary runs.
    Running,
    /// Within the output of tests that passed, shown because it may hold a `NOT RUN`. The flag is
    /// set once the present test has said it.
    Passed(bool),
    /// Within the output of tests that failed.
    Failed,
}

impl Reader {
    /// A reader that calls the whole `label`, and the first binary `binary`.
    pub fn new(label: &str, binary: &str) -> Self {
        Self {
            label: label.to_owned(),
            binary: binary.to_owned(),
            place: Place::Outside,
            expected: 0,
            contradicted: 0,
            tally: Tally::default(),
        }
    }

    /// Takes a line, and says whether a reader wants to see it.
    pub fn line(&mut self, line: &str) -> bool {
        if let Some(binary) = cargo_header(line) {
            self.close();
            self.binary = binary.to_owned();
            return true;
        }
        if let (Some(expected), Place::Outside) = (parse_start(line), self.place) {
            self.expected = expected;
            self.place = Place::Running;
            return true;
        }
        if let Some(counts) = parse_result(line)
            && self.place != Place::Outside
            // A test may show the output of a run of its own.
            && counts.ran() == self.expected
        {
            self.count(line, counts);
            return true;
        }
        if let (Some(name), Place::Running) = (failed_test(line), self.place) {
            let named = self.called(name);
            self.tally.failures.push(named);
        }
        if let Some(reason) = line.strip_prefix(NOT_RUN) {
            if let Place::Passed(said) = &mut self.place {
                self.contradicted += u64::from(!*said);
                *said = true;
            }
            return self.tally.not_run.insert(shortened(reason.trim()));
        }
        match (self.place, line) {
            (Place::Running, "successes:") => self.place = Place::Passed(false),
            (Place::Running | Place::Passed(_), "failures:") => self.place = Place::Failed,
            // The list of their names.
            (Place::Failed, "failures:") => self.place = Place::Running,
            (Place::Passed(_), _) if line.starts_with("---- ") => {
                self.place = Place::Passed(false);
            }
            (Place::Failed, _) => self.report(line),
            _ => {}
        }
        !matches!(self.place, Place::Passed(_))
    }

    /// The sum.
    pub fn finish(mut self) -> Tally {
        self.close();
        self.tally
    }

    /// Takes a line of what failed tests have said.
    fn report(&mut self, line: &str) {
        if let Some(name) = headline(line) {
            let named = self.called(name);
            // A test that writes past its harness stands on no line with its result.
            if !self
                .tally
                .failures
                .iter()
                .any(|test| test.ends_with(&named))
            {
                self.tally.failures.push(named.clone());
            }
            self.tally.reports.push(vec![named]);
        } else if let Some(report) = self.tally.reports.last_mut()
            && !line.trim().is_empty()
            && report.len() <= LONGEST_REPORT
        {
            let full = report.len() == LONGEST_REPORT;
            report.push(if full { "…".into() } else { line.to_owned() });
        }
    }

    /// A test's name with its binary.
    fn called(&self, name: &str) -> String {
        format!("{name} [{}: {}]", self.label, self.binary)
    }

    fn count(&mut self, line: &str, counts: Counts) {
        let contradicted = self.contradicted.min(counts.passed);
        self.tally.passed += counts.passed - contradicted;
        self.tally.failed += counts.failed;
        self.tally.skipped += counts.ignored + counts.filtered + contradicted;
        let mut text = format!("{line} [{}: {}]", self.label, self.binary);
        if contradicted > 0 {
            text.push_str(&format!(" {contradicted} of the passed could not run here"));
        }
        self.tally.results.push(text);
        self.contradicted = 0;
        self.place = Place::Outside;
    }

    /// A binary that has begun and said no result has died.
    fn close(&mut self) {
        if self.place != Place::Outside {
            self.tally.failed += 1;
            let text = format!("no test result: died [{}: {}]", self.label, self.binary);
            self.tally.results.push(text);
            self.contradicted = 0;
            self.place = Place::Outside;
        }
    }
}

/// The binary that cargo is about to run.
fn cargo_header(line: &str) -> Option<&str> {
    let line = line.strip_prefix("  ")?.trim_start();
    if let Some(running) = line.strip_prefix("Running ") {
        let (_, path) = running.split_once(" (")?;
        let name = path.strip_suffix(')')?.rsplit('/').next()?;
        return Some(name.rsplit_once('-').map_or(name, |(name, _)| name));
    }
    line.starts_with("Doc-tests ").then_some(line)
}

/// How many tests are about to run, out of a line such as `running 3 tests`.
fn parse_start(line: &str) -> Option<u64> {
    let (count, word) = line.strip_prefix("running ")?.split_once(' ')?;
    matches!(word, "test" | "tests").then(|| count.parse().ok())?
}

/// The name out of `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("test ")?;
    let (name, end) = rest.rsplit_once(" ... ")?;
    (end.trim() == "FAILED").then_some(name.trim())
}

/// The name over what a test has said, out of `---- NAME ----` or `---- NAME stdout ----`.
fn headline(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(name.strip_suffix(" stdout").unwrap_or(name))
}

/// A reason that a reader of a summary gets through.
fn shortened(reason: &str) -> String {
    let mut text: String = reason.chars().take(LONGEST_REASON).collect();
    if text.len() < reason.len() {
        text.push('…');
    }
    text
}

/// A line such as `test result: ok. 3 passed; 0 failed; …`.
#[derive(Debug, Clone, Copy)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    measured: u64,
    filtered: u64,
}

impl Counts {
    /// What the line `running … tests` has announced.
    fn ran(self) -> u64 {
        self.passed + self.failed + self.ignored + self.measured
    }
}

fn parse_result(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    let count = |word: &str| {
        counts
            .split("; ")
            .find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
    };
    Some(Counts {
        passed: count("passed")?,
        failed: count("failed")?,
        ignored: count("ignored")?,
        measured: count("measured")?,
        filtered: count("filtered out")?,
    })
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
