//! The text that is printed at the very end.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::Duration;

use super::name_of;
use super::requirements::Requirements;
use super::results::Counts;
use super::runner::JobReport;
use crate::cargo::Workspace;
use crate::failure::{Context, Failure};

/// The maximum number of names of ignored tests for one reason.
const MOST_NAMES: usize = 3;

/// The jobs so far.
#[derive(Debug, Default)]
pub struct Summary {
    lines: Vec<String>,
    times: Vec<String>,
    failures: Vec<String>,
    not_run: Vec<String>,
    /// The names of ignored tests by reason.
    ignored: BTreeMap<String, Vec<String>>,
    counts: Counts,
    cpu_time: Duration,
}

impl Summary {
    /// A summary without jobs.
    pub fn new(requirements: &Requirements) -> Self {
        for line in &requirements.not_run {
            eprintln!("not run: {line}");
        }
        Self {
            not_run: requirements.not_run.clone(),
            ..Self::default()
        }
    }

    /// Notes how long the build or a lane took.
    pub fn took(&mut self, name: &str, took: Duration) {
        let seconds = took.as_secs_f64();
        self.times.push(format!("{name} {seconds:.0} s"));
    }

    /// Adds a job that has ended, and reports it on stderr.
    pub fn add(&mut self, done: JobReport) {
        let seconds = done.took.as_secs_f64();
        let name = format!("{}: {}", name_of(&done.lane), done.name);
        let word = done.failure.as_ref().map_or("ok", |_| "FAILED");
        let cpu_time = done.cpu_time.map_or(String::new(), |time| {
            self.cpu_time += time;
            format!("{:>6.1} s CPU  ", time.as_secs_f64())
        });
        let mut line = format!("{word:<6} {seconds:>6.1} s  {cpu_time}{name}");
        if done.counts != Counts::default() {
            line.push_str(&format!(" ({})", done.counts));
        }
        eprintln!("{line}");
        self.lines.push(line);
        self.counts = self.counts + done.counts;
        for test in done.ignored {
            let (test, reason) = test.split_once(": ").unwrap_or((&test, "ignored"));
            let names = self.ignored.entry(reason.to_owned()).or_default();
            names.push(format!("{test} ({name})"));
        }
        if let Some(explanation) = done.failure {
            eprintln!("    {explanation}");
            self.failures.push(format!("FAILED {name}: {explanation}"));
        }
    }

    /// Writes it to `xtask/test-summary.txt` in the target folder. `.ci/run` prints it again.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, workspace: &Workspace) -> Result<(), Failure> {
        let folder = workspace.target.join("xtask");
        let path = folder.join("test-summary.txt");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, self.to_string()))
            .context(|| format!("cannot write {}", path.display()))
    }

    /// Whether a job has failed.
    pub fn failed(&self) -> bool {
        !self.failures.is_empty()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter)?;
        for line in &self.lines {
            writeln!(formatter, "{line}")?;
        }
        for line in &self.not_run {
            writeln!(formatter, "not run: {line}")?;
        }
        for (reason, names) in &self.ignored {
            let shown = &names[..names.len().min(MOST_NAMES)];
            write!(formatter, "skipped: {reason}: {}", shown.join(", "))?;
            match names.len() - shown.len() {
                0 => writeln!(formatter)?,
                more => writeln!(formatter, ", and {more} more")?,
            }
        }
        for failure in &self.failures {
            writeln!(formatter, "{failure}")?;
        }
        let cpu = self.cpu_time.as_secs();
        let times = self.times.join(", ");
        writeln!(
            formatter,
            "time: {times}; {cpu} s of CPU time, without engines"
        )?;
        writeln!(formatter, "{}", self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::job::Lane;

    fn done(passed: u64, failure: Option<&str>) -> JobReport {
        JobReport {
            lane: Lane::Local,
            name: "job".into(),
            took: Duration::from_secs(2),
            cpu_time: Some(Duration::from_millis(1500)),
            counts: Counts {
                passed,
                failed: u64::from(failure.is_some()),
                skipped: 1,
            },
            failure: failure.map(str::to_owned),
            ignored: vec!["test: no engine".into()],
        }
    }

    #[test]
    fn last_line_is_the_total() {
        let mut summary = Summary::default();
        summary.add(done(3, None));
        summary.add(done(4, None));
        assert!(!summary.failed());
        let text = summary.to_string();
        assert!(
            text.ends_with("\n7 passed, 0 failed, 2 skipped\n"),
            "{text}"
        );
        let skipped = "skipped: no engine: test (local: job), test (local: job)\n";
        assert!(text.contains(skipped), "{text}");
        assert!(
            text.contains("ok        2.0 s     1.5 s CPU  local: job (3 passed"),
            "{text}"
        );
    }

    #[test]
    fn failures_are_explained_at_the_end() {
        let mut summary = Summary::default();
        summary.add(done(3, Some("why")));
        assert!(summary.failed());
        let text = summary.to_string();
        assert!(text.contains("FAILED local: job: why\n"), "{text}");
        assert!(
            text.ends_with("\n3 passed, 1 failed, 1 skipped\n"),
            "{text}"
        );
    }
}
