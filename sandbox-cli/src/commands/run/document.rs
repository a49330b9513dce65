//! The result of a run as one JSON object.

use base64::Engine as _;
use sandbox::{
    Captured, Denial, Enforcement, ExecResult, Export, Level, Outcome, SandboxHandle,
    SkippedArtifact,
};
use serde::Serialize;

use crate::command_error::CommandError;
use crate::exit::Exit;

/// The result of a run. Every field is always present, except for `*_base64`. Those contain
/// output that is not UTF-8; its text has replacement characters. The last event of a stream has
/// no output.
#[derive(Debug, Serialize)]
pub struct RunDocument<'a> {
    /// In a stream of events: `end`. The output has its own events then.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    backend: &'a str,
    tier: &'a str,
    outcome: &'a Outcome,
    /// The exit code of the command.
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stdout_truncated: bool,
    stdout_total_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    stderr_truncated: bool,
    stderr_total_bytes: u64,
    /// Why output may be missing although no cap was reached.
    incomplete: Option<&'a str>,
    artifacts: Vec<ArtifactEntry<'a>>,
    skipped_artifacts: &'a [SkippedArtifact],
    /// Why artifacts could not be fetched at all.
    artifacts_error: Option<String>,
    /// What was denied to the program or during the export of artifacts.
    denials: Vec<DenialEntry<'a>>,
    /// How many more denials were not kept.
    denials_omitted: u64,
    enforcement: Vec<EnforcementEntry<'a>>,
    /// Notes of the engine.
    notes: &'a [String],
    duration_ms: f64,
    /// The time limit that applied.
    timeout_ms: f64,
    cpu_time_ms: Option<f64>,
    max_rss_bytes: Option<u64>,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
    egress_sent_bytes: Option<u64>,
    egress_received_bytes: Option<u64>,
    stragglers: u32,
}

#[derive(Debug, Serialize)]
struct ArtifactEntry<'a> {
    path: String,
    source: &'a str,
    size_bytes: u64,
    content_type: Option<&'a str>,
    blake3: &'a str,
}

/// A denial, with the message for a person or a model.
#[derive(Debug, Serialize)]
struct DenialEntry<'a> {
    #[serde(flatten)]
    denial: &'a Denial,
    message: String,
}

impl<'a> DenialEntry<'a> {
    fn new(denial: &'a Denial) -> Self {
        Self {
            denial,
            message: denial.to_string(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct EnforcementEntry<'a> {
    capability: &'a str,
    /// What was demanded; absent if the plan has no such demand.
    demanded: Option<&'a str>,
    level: Option<Level>,
    #[serde(flatten)]
    enforcement: &'a Enforcement,
}

impl<'a> RunDocument<'a> {
    /// The document of a run.
    pub fn new(
        backend: &'a str,
        sandbox: &'a SandboxHandle,
        result: &'a ExecResult,
        export: &'a Export,
        artifacts_error: Option<&CommandError>,
        exit: Exit,
    ) -> Self {
        let (stdout, stdout_base64) = text(&result.stdout);
        let (stderr, stderr_base64) = text(&result.stderr);
        Self {
            event: None,
            backend,
            tier: sandbox.tier(),
            outcome: &result.outcome,
            exit_code: exit.code(),
            stdout: Some(stdout),
            stdout_base64,
            stdout_truncated: result.stdout.truncated(),
            stdout_total_bytes: result.stdout.total,
            stderr: Some(stderr),
            stderr_base64,
            stderr_truncated: result.stderr.truncated(),
            stderr_total_bytes: result.stderr.total,
            incomplete: result.incomplete.as_deref(),
            artifacts: export.artifacts.iter().map(ArtifactEntry::new).collect(),
            skipped_artifacts: &export.skipped,
            artifacts_error: artifacts_error.map(ToString::to_string),
            denials: result
                .denials
                .iter()
                .chain(&export.denials)
                .map(DenialEntry::new)
                .collect(),
            denials_omitted: result.denials.omitted() + export.denials.omitted(),
            enforcement: enforcement(sandbox),
            notes: sandbox.enforcement().notes(),
            duration_ms: milliseconds(result.duration),
            timeout_ms: milliseconds(result.timeout),
            cpu_time_ms: result.cpu_time.map(milliseconds),
            max_rss_bytes: result.max_rss,
            read_bytes: result.read,
            written_bytes: result.written,
            egress_sent_bytes: result.egress_sent,
            egress_received_bytes: result.egress_received,
            stragglers: result.stragglers,
        }
    }
}

impl RunDocument<'_> {
    /// The last event of a stream, without the output.
    pub fn into_event(self) -> Self {
        Self {
            event: Some("end"),
            stdout: None,
            stdout_base64: None,
            stderr: None,
            stderr_base64: None,
            ..self
        }
    }
}

impl<'a> ArtifactEntry<'a> {
    fn new(artifact: &'a sandbox::Artifact) -> Self {
        Self {
            path: artifact.path.to_string_lossy().into_owned(),
            source: &artifact.source,
            size_bytes: artifact.size_bytes,
            content_type: artifact.content_type.as_deref(),
            blake3: &artifact.blake3,
        }
    }
}

/// The enforcement of each capability in a sandbox.
pub fn enforcement(sandbox: &SandboxHandle) -> Vec<EnforcementEntry<'_>> {
    let entry = |(capability, enforcement): (sandbox::Capability, _)| {
        let demand = sandbox.plan().demand(capability);
        EnforcementEntry {
            capability: capability.as_str(),
            demanded: demand.map(|demand| demand.value.as_str()),
            level: demand.map(|demand| demand.level),
            enforcement,
        }
    };
    sandbox.enforcement().iter().map(entry).collect()
}

/// Output as text, and as base64 if the text cannot represent all of it.
fn text(output: &Captured) -> (String, Option<String>) {
    let text = output.text();
    let is_whole = output.bytes.starts_with(text.as_bytes());
    let base64 =
        (!is_whole).then(|| base64::engine::general_purpose::STANDARD.encode(&output.bytes));
    (text, base64)
}

/// Rounds to microseconds.
fn milliseconds(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_utf8_output_is_included_as_base64() {
        let output = |bytes: &[u8], total| Captured {
            bytes: bytes.to_vec(),
            total,
        };
        assert_eq!(text(&output("ä".as_bytes(), 2)), ("ä".into(), None));
        assert_eq!(
            text(&output(b"a\xffb", 3)),
            ("a\u{fffd}b".into(), Some("Yf9i".into()))
        );
        // A character that the cap cut in half is not a reason for base64.
        assert_eq!(text(&output(b"a\xc3", 9)), ("a".into(), None));
        // One that the program never finished is.
        assert_eq!(
            text(&output(b"a\xc3", 2)),
            ("a\u{fffd}".into(), Some("YcM=".into()))
        );
    }
}
