//! What a run tells on standard error after the program's own lines.

use std::io::{self, IsTerminal as _, Write as _};

use sandbox::{
    Artifact, Captured, Enforcement, EnforcementReport, ExecResult, Export, Outcome, Plan,
    SandboxHandle, SkipReason, SkippedArtifact,
};

use super::live::Written;
use crate::escape::escape;
use crate::failure::Failure;
use crate::say;

/// Capabilities that are named together where all of them are enforced.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "filesystem",
        &["filesystem_read_roots", "filesystem_write_roots"],
    ),
    ("network", &["network_access"]),
    ("environment", &["env_var_access"]),
    ("output", &["stdout_max_bytes", "stderr_max_bytes"]),
    ("artifacts", &["artifact_export_paths"]),
];

/// What a run tells.
pub struct Summary<'a> {
    pub sandbox: &'a SandboxHandle,
    pub result: &'a ExecResult,
    pub export: &'a Export,
    pub lost: Option<&'a Failure>,
    pub live: &'a Written,
}

impl Summary<'_> {
    /// Writes it; quietly, only what went wrong.
    pub fn print(&self, quiet: bool) {
        let lines = self.lines(quiet);
        if !lines.is_empty() && self.ends_inside_a_line() {
            let _ = writeln!(io::stderr());
        }
        for line in lines {
            say(line);
        }
    }

    fn lines(&self, quiet: bool) -> Vec<String> {
        let plan = self.sandbox.plan();
        let mut lines = Vec::new();
        if !self.live.is_broken {
            lines.extend(outcome(&self.result.outcome, plan));
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
        if let Some(lost) = self.lost {
            lines.push(format!("artifacts lost: {lost}"));
        }
        lines.extend(self.export.skipped.iter().map(skipped));
        if !quiet {
            lines.extend(self.export.artifacts.iter().map(artifact));
            lines.push(enforcement(self.sandbox.tier(), self.sandbox.enforcement()));
        }
        lines
    }

    /// Whether the cursor stands behind text of the program.
    fn ends_inside_a_line(&self) -> bool {
        let [stdout, stderr] = self
            .live
            .last
            .map(|last| last.is_some_and(|byte| byte != b'\n'));
        stderr || (stdout && io::stdout().is_terminal() && io::stderr().is_terminal())
    }
}

fn outcome(outcome: &Outcome, plan: &Plan) -> Option<String> {
    match outcome {
        Outcome::Exited { .. } => None,
        Outcome::TimedOut => Some(format!("timed out after {:?}", plan.timeout)),
        Outcome::OutOfMemory => Some(format!(
            "out of memory: the sandbox may use {}",
            plan.memory
        )),
        Outcome::OutputLimit => Some("killed for writing far more output than is kept".into()),
        other => Some(escape(&other.to_string())),
    }
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

fn skipped(skipped: &SkippedArtifact) -> String {
    let reason = match &skipped.reason {
        SkipReason::Missing => "nothing is there".to_owned(),
        SkipReason::Symlink => "a symbolic link".to_owned(),
        SkipReason::SpecialFile => "not a regular file".to_owned(),
        SkipReason::TooLarge { size_bytes } => format!("too large ({size_bytes} bytes)"),
        SkipReason::LimitReached => "the limit on artifacts was reached".to_owned(),
        SkipReason::BadName => "its name cannot be written".to_owned(),
        SkipReason::Unreadable { detail } => format!("cannot be read: {detail}"),
        other => format!("{other:?}"),
    };
    escape(&format!("no artifact {}: {reason}", skipped.source))
}

/// `local: enforced filesystem, network; partial: memory (sampled); not enforced: cpus (no cgroup rights)`.
fn enforcement(tier: &str, report: &EnforcementReport) -> String {
    let mut enforced = report
        .enforced_capabilities()
        .iter()
        .map(|c| c.as_str())
        .collect::<Vec<_>>();
    for (group, members) in GROUPS {
        if members.iter().all(|member| enforced.contains(member)) {
            let first = enforced
                .iter()
                .position(|name| members.contains(name))
                .unwrap_or(0);
            enforced[first] = group;
            enforced.retain(|name| !members.contains(name));
        }
    }
    let partial = report
        .iter()
        .filter_map(|(capability, enforcement)| match enforcement {
            Enforcement::Partial { gap, .. } => Some(format!("{capability} ({gap})")),
            _ => None,
        });
    let unenforced = report
        .iter()
        .filter_map(|(capability, enforcement)| match enforcement {
            Enforcement::Unenforced { reason } => Some((capability, reason)),
            _ => None,
        });
    let unenforced = unenforced.collect::<Vec<_>>();
    let nothing = match unenforced.first() {
        Some((_, reason))
            if enforced.is_empty() && unenforced.iter().all(|(_, other)| other == reason) =>
        {
            Some(format!("nothing is enforced ({reason})"))
        }
        _ => None,
    };
    let parts = if let Some(nothing) = nothing {
        vec![nothing]
    } else {
        let unenforced = unenforced
            .iter()
            .map(|(capability, reason)| format!("{capability} ({reason})"));
        let parts = [
            ("enforced", enforced.join(", ")),
            ("partial:", partial.collect::<Vec<_>>().join(", ")),
            ("not enforced:", unenforced.collect::<Vec<_>>().join(", ")),
        ];
        parts
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(label, names)| format!("{label} {names}"))
            .collect()
    };
    escape(&format!("{tier}: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use sandbox::Capability;

    use super::*;

    #[test]
    fn capabilities_are_grouped_where_all_of_a_group_are_enforced() {
        let mut report = EnforcementReport::new();
        for capability in [
            Capability::FilesystemReadRoots,
            Capability::FilesystemWriteRoots,
            Capability::NetworkAccess,
            Capability::StdoutMaxBytes,
            Capability::Pids,
        ] {
            report.set(capability, Enforcement::enforced("x"));
        }
        report.set(
            Capability::Memory,
            Enforcement::partial("sampler", "sampled"),
        );
        report.set(
            Capability::Cpus,
            Enforcement::unenforced("no cgroup rights"),
        );
        assert_eq!(
            enforcement("local", &report),
            "local: enforced filesystem, network, stdout_max_bytes, pids; partial: memory (sampled); \
             not enforced: cpus (no cgroup rights)"
        );
    }

    #[test]
    fn a_tier_without_policy_says_so_once() {
        let report = EnforcementReport::nothing("this tier applies no policy");
        assert_eq!(
            enforcement("x_unsafe", &report),
            "x_unsafe: nothing is enforced (this tier applies no policy)"
        );
    }

    #[test]
    fn names_from_the_sandbox_are_escaped() {
        let source = "/output/\u{1b}[2J".to_owned();
        let line = skipped(&SkippedArtifact {
            source,
            reason: SkipReason::Symlink,
        });
        assert_eq!(line, "no artifact /output/\\u{1b}[2J: a symbolic link");
    }
}
