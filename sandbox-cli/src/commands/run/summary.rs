//! The summary of a run, on standard error after the program's output.

use std::io::{self, IsTerminal as _, Write as _};

use sandbox::{
    Artifact, Captured, Denial, DenialKind, Denials, ExecResult, Export, Outcome, SandboxHandle,
    SkipReason, SkippedArtifact,
};

use super::enforcement_line::enforcement_line;
use super::live::WrittenOutput;
use crate::command_error::CommandError;
use crate::print_status;
use sandbox::spi::escape;

/// The summary of a run.
pub struct Summary<'a> {
    pub sandbox: &'a SandboxHandle,
    pub result: &'a ExecResult,
    pub export: &'a Export,
    pub artifacts_error: Option<&'a CommandError>,
    pub live: &'a WrittenOutput,
}

impl Summary<'_> {
    /// Prints it; with `quiet`, only problems.
    pub fn print(&self, quiet: bool) {
        let lines = self.lines(quiet);
        if !lines.is_empty() && self.ends_inside_a_line() {
            let _ = writeln!(io::stderr());
        }
        for line in lines {
            print_status(line);
        }
    }

    fn lines(&self, quiet: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.live.is_broken {
            lines.extend(outcome(&self.result.outcome));
            lines.extend(denied(&self.result.denials, &self.result.outcome));
        }
        lines.extend(truncation(
            "standard output",
            "--stdout-max",
            &self.result.stdout,
        ));
        lines.extend(truncation(
            "standard error",
            "--stderr-max",
            &self.result.stderr,
        ));
        lines.extend(
            self.result
                .incomplete
                .as_ref()
                .map(|why| format!("output may be incomplete: {}", escape(why))),
        );
        if let Some(error) = self.artifacts_error {
            lines.push(format!("artifacts lost: {error}"));
        }
        lines.extend(all_skipped(&self.export.skipped));
        let notes = self.sandbox.enforcement().notes();
        lines.extend(notes.iter().map(|note| escape(note)));
        if !quiet {
            lines.extend(self.export.artifacts.iter().map(artifact));
            lines.push(enforcement_line(
                self.sandbox.tier(),
                self.sandbox.enforcement(),
                &self.sandbox.plan().network,
            ));
        }
        lines
    }

    /// Whether the program's output ended without a line end.
    fn ends_inside_a_line(&self) -> bool {
        let [stdout, stderr] = self
            .live
            .last
            .map(|last| last.is_some_and(|byte| byte != b'\n'));
        stderr || (stdout && io::stdout().is_terminal() && io::stderr().is_terminal())
    }
}

/// The outcome, unless a denial explains it.
fn outcome(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Exited { .. }
        | Outcome::TimedOut
        | Outcome::OutOfMemory
        | Outcome::OutputLimit => None,
        other => Some(escape(&other.to_string())),
    }
}

/// The denials, except truncated output, which has its own line.
fn denied(denials: &Denials, outcome: &Outcome) -> Vec<String> {
    let is_cut =
        |denial: &&Denial| denial.kind == DenialKind::Output && *outcome != Outcome::OutputLimit;
    let shown = denials.iter().filter(|denial| !is_cut(denial));
    let mut lines = shown
        .map(|denial| escape(&denial.to_string()))
        .collect::<Vec<_>>();
    if denials.omitted() > 0 {
        lines.push(format!("{} more denials", denials.omitted()));
    }
    lines
}

fn truncation(name: &str, option: &str, output: &Captured) -> Option<String> {
    output.truncated().then(|| {
        format!(
            "{name} cut: {} of {} bytes were passed on ({option} raises that)",
            output.bytes.len(),
            output.total
        )
    })
}

fn artifact(artifact: &Artifact) -> String {
    let kind = artifact.content_type.as_deref().unwrap_or("unknown type");
    escape(&format!(
        "artifact {} ({} bytes, {kind})",
        artifact.path.display(),
        artifact.size_bytes
    ))
}

/// Why something was not copied.
pub fn skip_reason(reason: &SkipReason) -> String {
    match reason {
        SkipReason::Missing => "not found".to_owned(),
        SkipReason::Symlink => "a symbolic link".to_owned(),
        SkipReason::SpecialFile => "not a regular file".to_owned(),
        SkipReason::TooLarge { size_bytes } => format!("too large ({size_bytes} bytes)"),
        SkipReason::LimitReached => "the limit was reached".to_owned(),
        SkipReason::BadName => "invalid file name".to_owned(),
        SkipReason::NameTaken => "a file has the name of its folder".to_owned(),
        SkipReason::TooDeep => "nested too deeply".to_owned(),
        SkipReason::AndMore { count } => format!("and {count} more of them"),
        SkipReason::Unreadable { detail } => format!("cannot be read: {detail}"),
        other => format!("{other:?}"),
    }
}

/// A line for each of the first 20, and a line with the number of the others.
fn all_skipped(all: &[SkippedArtifact]) -> Vec<String> {
    const MOST: usize = 20;
    let mut lines = all.iter().take(MOST).map(skipped).collect::<Vec<_>>();
    let rest = all.iter().skip(MOST).map(|skipped| match skipped.reason {
        SkipReason::AndMore { count } => count,
        _ => 1,
    });
    let rest = rest.sum::<u64>();
    if rest > 0 {
        lines.push(format!(
            "and {rest} more skipped artifacts (-o json lists up to 1000)"
        ));
    }
    lines
}

fn skipped(skipped: &SkippedArtifact) -> String {
    let reason = skip_reason(&skipped.reason);
    escape(&format!("skipped artifact {}: {reason}", skipped.source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_skipped_artifacts_are_summarized() {
        let one = |reason| SkippedArtifact {
            source: "/output/x".into(),
            reason,
        };
        let mut all = vec![one(SkipReason::Symlink); 1000];
        assert_eq!(all_skipped(&all[..20]).len(), 20);
        all.push(one(SkipReason::AndMore { count: 2000 }));
        let lines = all_skipped(&all);
        assert_eq!(lines.len(), 21);
        assert!(lines[20].starts_with("and 2980 more"), "{}", lines[20]);
    }

    #[test]
    fn names_from_sandbox_are_escaped() {
        let source = "/output/\u{1b}[2J".to_owned();
        let line = skipped(&SkippedArtifact {
            source,
            reason: SkipReason::Symlink,
        });
        assert_eq!(line, "skipped artifact /output/\\u{1b}[2J: a symbolic link");
    }
}
