//! The counts and failures in the output of test programs.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use super::supervise::CPU_TIME;

/// The maximum number of lines that are repeated for one failed job.
const MOST_LINES: usize = 60;

/// How many tests passed, failed and were skipped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests and steps that failed.
    pub failed: u64,
    /// Tests that were ignored, because they cannot run here.
    pub skipped: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            passed: self.passed + more.passed,
            failed: self.failed + more.failed,
            skipped: self.skipped + more.skipped,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped);
        write!(
            formatter,
            "{passed} passed, {failed} failed, {skipped} skipped"
        )
    }
}

/// The counts of every line `test result: …`.
pub fn all_counts(output: &str) -> Option<Counts> {
    output.lines().filter_map(counts).reduce(Counts::add)
}

/// The counts of the last line `test result: …`. Earlier lines belong to runs within a test.
pub fn last_counts(output: &str) -> Option<Counts> {
    output.lines().rev().find_map(counts)
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; …`.
fn counts(line: &str) -> Option<Counts> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let mut parts = counts.split("; ");
        parts.find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
    };
    Some(Counts {
        passed: count("passed")?,
        failed: count("failed")?,
        skipped: count("ignored")?,
    })
}

/// The tests that were ignored, each with its reason: `NAME: REASON`. Scripts write `skipped NAME: REASON`.
pub fn ignored(output: &str) -> impl Iterator<Item = String> {
    output.lines().filter_map(|line| {
        if let Some(skipped) = line.strip_prefix("skipped ") {
            return Some(skipped.to_owned());
        }
        let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ignored")?;
        let reason = end.strip_prefix(", ").unwrap_or("ignored");
        Some(format!("{}: {reason}", name.trim()))
    })
}

/// Takes what the supervisor wrote about CPU time out of the output.
pub fn take_cpu_time(output: &mut String) -> Option<Duration> {
    let start = output.rfind(CPU_TIME)?;
    let end = output[start..].find('\n')? + start;
    let seconds = output[start + CPU_TIME.len()..end].parse().ok()?;
    output.replace_range(start..=end, "");
    Duration::try_from_secs_f64(seconds).ok()
}

/// The explanation of a failure: the output of the failed tests. Without any, the last lines, where
/// compilers and the suite print what failed.
pub fn explanation(output: &str) -> Vec<&str> {
    let failed = output.lines().skip_while(|line| *line != "failures:");
    let failed = failed.filter(|line| !line.trim().is_empty());
    let explained: Vec<&str> = failed.take(MOST_LINES).collect();
    if !explained.is_empty() {
        return explained;
    }
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(MOST_LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s";
    const BAD: &str = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";

    #[test]
    fn filtered_tests_are_not_counted() {
        let output = format!("{BAD}\ntest result: ok. many passed; 0 failed;\n{OK}\n");
        let sum = all_counts(&output).expect("counts");
        assert_eq!(sum.to_string(), "4 passed, 2 failed, 1 skipped");
        assert_eq!(
            last_counts(&output).expect("counts").to_string(),
            "3 passed, 0 failed, 1 skipped"
        );
        assert_eq!(last_counts("running 3 tests\n"), None);
    }

    #[test]
    fn ignored_tests_are_named_with_their_reason() {
        let output = "test a::b      ... ignored, no control groups\ntest c ... ok\ntest d ... ignored\nskipped e: missing\n";
        let names: Vec<_> = ignored(output).collect();
        assert_eq!(
            names,
            ["a::b: no control groups", "d: ignored", "e: missing"]
        );
    }

    #[test]
    fn cpu_time_is_the_last_line_of_its_kind() {
        let mut output = "one\nCPU time: x\nCPU time: 2.5\nerror: late\n".to_owned();
        let time = take_cpu_time(&mut output);
        assert_eq!(time, Some(Duration::from_millis(2500)));
        assert_eq!(output, "one\nCPU time: x\nerror: late\n");
        assert_eq!(take_cpu_time(&mut output), None);
    }

    #[test]
    fn explanation_is_the_failed_tests_or_the_last_lines() {
        let output = format!(
            "test a ... ok\n\nfailures:\n\n---- b ----\nwhy\n\nfailures:\n    b\n\n{BAD}\n"
        );
        let explained = explanation(&output);
        assert_eq!(
            explained[..3],
            ["failures:", "---- b ----", "why"],
            "{explained:?}"
        );
        assert_eq!(explanation("one\ntwo\n"), ["one", "two"]);
    }
}
