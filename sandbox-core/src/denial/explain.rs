//! Turns known facts into denials with text and rule.

use std::time::Duration;

use super::{Denial, DenialKind, Denials, Refusal};
use crate::capture::Excess;
use crate::escape::escape;
use crate::policy::NetworkRule;
use crate::spi::OutputStream;
use crate::{
    ArtifactLimits, Capability, Enforcement, ExecEnd, Outcome, Plan, SkipReason, SkippedArtifact,
    Unmet,
};

/// The denials of an ended execution. `timeout` was its limit, and `excess` is the output above the
/// caps.
pub(crate) fn of_end(
    plan: &Plan,
    timeout: Duration,
    end: &ExecEnd,
    excess: &[(OutputStream, Excess)],
) -> Denials {
    let mut denials = Denials::default();
    for (refusal, times) in &end.refused {
        denials.push(of_refusal(*refusal, plan).times(*times));
    }
    match end.outcome {
        Outcome::TimedOut => denials.push(of_time(plan, timeout)),
        Outcome::OutOfMemory if !end.refused.iter().any(|(r, _)| *r == Refusal::Memory) => {
            denials.push(of_refusal(Refusal::Memory, plan));
        }
        _ => {}
    }
    for (stream, excess) in excess {
        denials.push(of_output(*stream, *excess, plan));
    }
    denials
}

fn of_refusal(refusal: Refusal, plan: &Plan) -> Denial {
    let (kind, capability, what, advice) = match refusal {
        Refusal::Program => (
            DenialKind::Program,
            Capability::SubprocessExecution,
            "starting a second program is denied by the policy",
            "do the work in one program, or ask the operator for subprocess_execution = true",
        ),
        Refusal::Process => (
            DenialKind::Process,
            Capability::SubprocessExecution,
            "starting another process is denied by the policy",
            "do the work in one process, or ask the operator for subprocess_execution = true",
        ),
        Refusal::ProcessLimit => (
            DenialKind::ProcessLimit,
            Capability::Pids,
            "a process or thread beyond the sandbox's limit was denied",
            "start fewer at once, or ask the operator for more pids",
        ),
        Refusal::Memory => (
            DenialKind::Memory,
            Capability::Memory,
            "out of memory: a process was killed at the sandbox's limit",
            "use less memory, or ask the operator for more",
        ),
        Refusal::Network => (
            DenialKind::Network,
            Capability::NetworkAccess,
            "network access is denied by the policy",
            "work without the network, or ask the operator to allow the destination",
        ),
    };
    Denial::new(kind, capability, what, rule(capability, plan), advice)
}

fn of_time(plan: &Plan, timeout: Duration) -> Denial {
    let denial = |rule: String, advice: String| {
        let what = "timed out: the execution was killed at its time limit";
        Denial::new(DenialKind::Time, Capability::Timeout, what, rule, advice)
    };
    if timeout < plan.timeout {
        return denial(
            format!("timeout = {timeout:?}, asked for with the execution"),
            format!(
                "do less at once, or ask for more time: the policy allows {:?}",
                plan.timeout
            ),
        );
    }
    denial(
        rule(Capability::Timeout, plan),
        "do less at once, or ask the operator for a longer timeout".into(),
    )
}

/// The output of a stream above its cap.
pub(crate) fn of_output(stream: OutputStream, excess: Excess, plan: &Plan) -> Denial {
    let (name, capability) = match stream {
        OutputStream::Stdout => ("standard output", Capability::StdoutMaxBytes),
        OutputStream::Stderr => ("standard error", Capability::StderrMaxBytes),
    };
    let what = match excess {
        Excess::Cut => format!("{name} beyond the limit was not kept"),
        Excess::Killed => {
            format!("the execution was killed for writing far more {name} than is kept")
        }
    };
    let advice = format!("write less, or to a file, or ask the operator for a larger {capability}");
    Denial::new(
        DenialKind::Output,
        capability,
        what,
        rule(capability, plan),
        advice,
    )
}

/// The error numbers that mean that a file operation was denied, the same on all architectures of
/// the agent.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EFBIG: i32 = 27;
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EROFS: i32 = 30;
    pub(super) const ELOOP: i32 = 40;
    pub(super) const EDQUOT: i32 = 122;
}

/// The denial of a file operation that failed with this error number; `None` if it failed for
/// another reason. The agent acts with the rights of the code, so the code is denied the same.
pub(crate) fn of_file_error(
    kind: DenialKind,
    path: &str,
    number: i32,
    plan: &Plan,
) -> Option<Denial> {
    let path = escape(path);
    match number {
        errno::ENOSPC | errno::EDQUOT | errno::EFBIG => Some(Denial::new(
            DenialKind::Storage,
            Capability::Disk,
            format!("storage beyond the sandbox's limit was denied to {path}"),
            rule(Capability::Disk, plan),
            "remove files, write less, or ask the operator for a larger disk",
        )),
        errno::EPERM | errno::EACCES | errno::EROFS | errno::ELOOP => {
            let (verb, capability, advice) = if kind == DenialKind::FileRead {
                (
                    "reading",
                    Capability::FilesystemReadRoots,
                    "only what the code in the sandbox may read can be fetched",
                )
            } else {
                (
                    "writing",
                    Capability::FilesystemWriteRoots,
                    "only where the code in the sandbox may write can files be put: its own folders and the write roots",
                )
            };
            let link = if number == errno::ELOOP {
                ": a symbolic link, and links are not followed"
            } else {
                ""
            };
            let what = format!("{verb} {path} in the sandbox was denied{link}");
            Some(Denial::new(
                kind,
                capability,
                what,
                rule(capability, plan),
                advice,
            ))
        }
        _ => None,
    }
}

/// The denial of an export; `None` if there was nothing to export.
pub(crate) fn of_artifact(
    skipped: &SkippedArtifact,
    limits: ArtifactLimits,
    plan: &Plan,
) -> Option<Denial> {
    let capability = Capability::ArtifactExportPaths;
    let exports = rule(capability, plan);
    let (why, rule, advice) = match &skipped.reason {
        SkipReason::Missing => return None,
        SkipReason::Symlink => (
            "it is a symbolic link".to_owned(),
            exports,
            "write the content itself: links are not followed out of a sandbox",
        ),
        SkipReason::SpecialFile => (
            "it is neither a file nor a folder".to_owned(),
            exports,
            "write a regular file",
        ),
        SkipReason::TooLarge { size_bytes } => (
            format!("it has {size_bytes} bytes"),
            format!(
                "at most {} for a file, {} for all",
                limits.file_size, limits.total_size
            ),
            "write a smaller file, or several",
        ),
        SkipReason::LimitReached => (
            "the limit on artifacts was reached before it".to_owned(),
            format!("at most {} files and {}", limits.count, limits.total_size),
            "write fewer and smaller files",
        ),
        SkipReason::BadName => (
            "its name cannot be written on the host".to_owned(),
            exports,
            "give it another name",
        ),
        SkipReason::NameTaken => (
            "something of another kind has its name in the output folder".to_owned(),
            exports,
            "give it another name, or have the output folder emptied",
        ),
        SkipReason::TooDeep => ("it lies too deep".to_owned(), exports, "nest folders less"),
        // Each skipped artifact is counted. They have no common reason.
        SkipReason::AndMore { .. } => return None,
        SkipReason::Unreadable { detail } => (
            format!("it cannot be read: {}", escape(detail)),
            exports,
            "make it readable, and leave it alone while it is exported",
        ),
    };
    let what = format!("exporting {} was denied: {why}", escape(&skipped.source));
    Some(Denial::new(
        DenialKind::Artifact,
        capability,
        what,
        rule,
        advice,
    ))
}

/// A specification that asks for more of a capability than the policy allows.
pub(crate) fn of_specification(capability: Capability, asked: &str, allowed: &str) -> Denial {
    Denial::new(
        DenialKind::Specification,
        capability,
        format!("the specification asks for {asked}, more than the policy allows"),
        format!("{capability} = {allowed}"),
        SPECIFICATION_ADVICE,
    )
}

/// A connection of code that the rules do not allow. `why` is the end of a sentence ("no rule allows
/// it"), and `rule` is the one that denies or does not suffice.
#[must_use]
pub fn denied_connection(host: &str, port: u16, why: &str, rule: Option<&NetworkRule>) -> Denial {
    let rule = match rule {
        Some(rule) => format!("egress = {rule}"),
        None => "egress: no rule allows it".to_owned(),
    };
    Denial::new(
        DenialKind::Network,
        Capability::Egress,
        format!(
            "a connection to {}:{port} was denied: {}",
            escape(host),
            escape(why)
        ),
        rule,
        "connect to what a rule allows, or ask the operator for a rule",
    )
}

/// The advice for a specification that asks for too much.
pub(crate) const SPECIFICATION_ADVICE: &str = "ask for less, or have the operator raise the policy";

/// A demand that the backend cannot enforce.
pub(crate) fn of_unmet(unmet: &Unmet) -> Denial {
    let capability = unmet.demand.capability;
    let flag = match unmet.enforcement {
        Enforcement::Partial { .. } => "allow_partial",
        _ => "allow_unenforced",
    };
    Denial::new(
        DenialKind::NotEnforceable,
        capability,
        format!(
            "the sandbox was refused: {capability} would be {} on this host",
            unmet.enforcement
        ),
        format!("{capability} = {}", unmet.demand.value),
        format!(
            "ask the operator for another host, or to accept that with {flag} = [\"{capability}\"]"
        ),
    )
}

/// The plan's rule for a capability. A capability without a demand was not granted.
fn rule(capability: Capability, plan: &Plan) -> String {
    match plan.demand(capability) {
        Some(demand) => format!("{capability} = {}", demand.value),
        None => format!("{capability} is not granted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_connection_names_its_rule_or_that_there_is_none() {
        let rule = "!a.org".parse().unwrap();
        let denial = denied_connection("a.org", 443, "the rule !a.org denies it", Some(&rule));
        assert_eq!(
            denial.to_string(),
            "a connection to a.org:443 was denied: the rule !a.org denies it (egress = !a.org); \
             a retry will not help: connect to what a rule allows, or ask the operator for a rule"
        );
        let denial = denied_connection("a\n", 1, "no rule allows it", None);
        assert!(denial.what.contains("a\\n:1"), "{}", denial.what);
        assert_eq!(denial.rule, "egress: no rule allows it");
    }
}
