//! What is printed at the very end.

use std::fmt;
use std::fs;
use std::time::Duration;

use super::tally::Tally;
use super::{Counted, Outcome};
use crate::cargo::Workspace;
use crate::failure::{Context, Result};

/// Most lines of tests that could not run; the rest is a count.
const MOST_NOT_RUN: usize = 40;
/// Most tests that are named as failed; the rest is in their binary's counts.
const MOST_FAILURES: usize = 100;
/// Most tests of which it is said once more what they have said; all of it stands in their binaries' output.
const MOST_REPORTS: usize = 10;
/// Where [`Summary::write`] writes, within the target folder.
const FILE: &str = "xtask/test-summary.txt";

/// The steps so far.
#[derive(Debug, Default)]
pub struct Summary {
    steps: Vec<String>,
    failures: Vec<String>,
    not_run: Vec<String>,
    tally: Tally,
}

impl Summary {
    /// Takes what came of a step, says it on stderr, and returns whether it is good.
    pub fn step(&mut self, name: &str, outcome: Result<Outcome>, took: Duration) -> bool {
        let seconds = took.as_secs_f64();
        let trouble = match outcome {
            Ok(Outcome::Passed) => None,
            Ok(Outcome::NotRun(reason)) => {
                self.not_run(name, &reason);
                eprintln!("==> {name}: not run: {reason}");
                return true;
            }
            Ok(Outcome::Counted(Counted { tally, trouble })) => {
                let counts = tally.to_string();
                let failed = tally.failed;
                self.tally.add(tally);
                let trouble = match (trouble, failed) {
                    (None, 0) => None,
                    (None, _) => Some(counts.clone()),
                    (Some(failure), 0) => {
                        // What went wrong besides the tests must not stand beside "0 failed".
                        self.tally.failed += 1;
                        Some(failure.to_string())
                    }
                    (Some(failure), _) => Some(format!("{failure}; {counts}")),
                };
                if trouble.is_none() {
                    eprintln!("==> {name}: {counts}");
                }
                trouble
            }
            Err(failure) => {
                self.tally.failed += 1;
                Some(failure.to_string())
            }
        };
        match &trouble {
            None => {
                eprintln!("==> {name}: passed in {seconds:.1} s");
                self.steps.push(format!("{name} {seconds:.1} s"));
            }
            Some(trouble) => {
                eprintln!("==> {name}: FAILED after {seconds:.1} s: {trouble}");
                self.failures.push(format!("{name}: {trouble}"));
            }
        }
        trouble.is_none()
    }

    /// Notes that something did not run, and why.
    pub fn not_run(&mut self, what: &str, reason: &str) {
        self.not_run.push(format!("{what}: {reason}"));
    }

    /// Keeps it in the target folder, for who wants to show it once more after other output.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, workspace: &Workspace) -> Result<()> {
        let path = workspace.target.join(FILE);
        let doing = || format!("cannot write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(doing)?;
        }
        fs::write(&path, self.to_string()).context(doing)
    }

    /// Whether a step has failed.
    pub fn failed(&self) -> bool {
        !self.failures.is_empty() || self.tally.failed > 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter)?;
        for result in &self.tally.results {
            writeln!(formatter, "{result}")?;
        }
        let not_run: Vec<&String> = self.not_run.iter().chain(&self.tally.not_run).collect();
        for line in not_run.iter().take(MOST_NOT_RUN) {
            writeln!(formatter, "NOT RUN: {line}")?;
        }
        if let Some(more) = not_run
            .len()
            .checked_sub(MOST_NOT_RUN)
            .filter(|more| *more > 0)
        {
            writeln!(formatter, "NOT RUN: and {more} more, each named above")?;
        }
        for report in self.tally.reports.iter().take(MOST_REPORTS) {
            let mut lines = report.iter();
            if let Some(test) = lines.next() {
                writeln!(formatter, "what {test} said:")?;
            }
            for line in lines {
                writeln!(formatter, "    {line}")?;
            }
        }
        for test in self.tally.failures.iter().take(MOST_FAILURES) {
            writeln!(formatter, "FAILED: test {test}")?;
        }
        for failure in &self.failures {
            writeln!(formatter, "FAILED: {failure}")?;
        }
        if !self.steps.is_empty() {
            writeln!(formatter, "steps that passed: {}", self.steps.join(", "))?;
        }
        writeln!(formatter, "{}", self.tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    fn tally(passed: u64, failed: u64) -> Tally {
        Tally {
            passed,
            failed,
            skipped: 1,
            results: vec!["test result: x".into()],
            ..Tally::default()
        }
    }

    #[test]
    fn the_last_line_is_the_sum() {
        let mut summary = Summary::default();
        let counted = |passed| {
            Ok(Outcome::Counted(Counted {
                tally: tally(passed, 0),
                trouble: None,
            }))
        };
        assert!(summary.step("tests", counted(3), Duration::ZERO));
        assert!(summary.step("user", counted(4), Duration::ZERO));
        assert!(summary.step("docs", Ok(Outcome::Passed), Duration::ZERO));
        assert!(summary.step("x", Ok(Outcome::NotRun("why".into())), Duration::ZERO));
        assert!(!summary.failed());
        let text = summary.to_string();
        assert!(text.ends_with("steps that passed: tests 0.0 s, user 0.0 s, docs 0.0 s\n7 passed, 0 failed, 2 skipped\n"), "{text}");
        assert!(text.contains("\nNOT RUN: x: why\n"));
    }

    #[test]
    fn what_failed_tests_said_is_said_again() {
        let mut summary = Summary::default();
        summary.tally.reports = vec![vec!["a".into(), "why".into()]; MOST_REPORTS + 1];
        let text = summary.to_string();
        assert_eq!(
            text.matches("what a said:\n    why\n").count(),
            MOST_REPORTS
        );
    }

    #[test]
    fn no_failure_stands_beside_zero_failed() {
        let steps: [Result<Outcome>; 3] = [
            Err(Failure::new("broken")),
            Ok(Outcome::Counted(Counted {
                tally: tally(3, 2),
                trouble: None,
            })),
            Ok(Outcome::Counted(Counted {
                tally: tally(3, 0),
                trouble: Some(Failure::new("left")),
            })),
        ];
        for step in steps {
            let mut summary = Summary::default();
            assert!(!summary.step("step", step, Duration::ZERO));
            assert!(summary.failed());
            assert!(!summary.to_string().contains(" 0 failed"), "{summary}");
            assert!(summary.to_string().contains("FAILED: step: "));
        }
    }
}
