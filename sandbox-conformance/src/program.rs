//! The probe program: one static program without a C library, the same on the host and in every
//! sandbox.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sandbox_core::Outcome;

use crate::evidence::Attempt;
use crate::probe::ProbeError;

/// The program for this architecture; empty if the build script could not build it.
pub static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

/// Writes the program to the host's disk.
///
/// # Errors
///
/// If it cannot be written, or if there is no program for this target.
pub fn install(path: &Path) -> Result<(), ProbeError> {
    if PROGRAM.is_empty() {
        return Err(ProbeError::new(
            "the probe program was not built for this target",
        ));
    }
    fs::write(path, PROGRAM)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// An argument that stands for the path of the probe program.
pub const ITSELF: &str = "{program}";

/// One call of the probe program.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// Subcommand and arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Standard input; `None` is empty.
    pub stdin: Option<Vec<u8>>,
    /// The time limit inside a sandbox; `None` is the policy's.
    pub timeout: Option<Duration>,
    /// The value that success must return. Another value means that the call found something else.
    pub expected: Option<String>,
}

impl Call {
    /// A call of a subcommand with arguments.
    pub fn new<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let bytes = |argument: A| argument.as_ref().as_bytes().to_vec();
        Self {
            arguments: arguments.into_iter().map(bytes).collect(),
            ..Self::default()
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn and(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().as_bytes().to_vec());
        self
    }

    /// Requires this value on success.
    #[must_use]
    pub fn expect(mut self, value: impl Into<String>) -> Self {
        self.expected = Some(value.into());
        self
    }

    /// Sets the time limit inside a sandbox.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets standard input.
    #[must_use]
    pub fn stdin(mut self, content: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(content.into());
        self
    }

    /// The arguments for a program at the path `program`.
    pub fn arguments_for<'a>(&'a self, program: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.arguments.iter().map(move |a| {
            if a == ITSELF.as_bytes() {
                program
            } else {
                a.as_slice()
            }
        })
    }

    /// The arguments as text for a report.
    #[must_use]
    pub fn text(&self) -> String {
        let words = self.arguments.iter().map(|a| String::from_utf8_lossy(a));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A finished run of the program.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// The captured standard output.
    pub stdout: Vec<u8>,
    /// The captured standard error.
    pub stderr: Vec<u8>,
    /// The number of bytes written to standard output.
    pub stdout_total: u64,
    /// The number of bytes written to standard error.
    pub stderr_total: u64,
    /// How long it took.
    pub duration: Duration,
}

impl Run {
    /// The result of the operation that the program tried.
    ///
    /// The program writes `result=ok`, `result=value:…`, `result=errno:NAME,…` or
    /// `result=denied:WORD` as its last line of standard output, or of standard error if standard
    /// output is under test. Without such a line, a kill decides and a plain exit is unclear, so a
    /// missing program cannot look like a denied attack.
    #[must_use]
    pub fn attempt(&self, expected: Option<&str>) -> Attempt {
        let line = result_line(&self.stdout).or_else(|| result_line(&self.stderr));
        match line {
            Some(line) => parse_result(&line, expected),
            None => attempt_of_outcome(&self.outcome),
        }
    }
}

/// What the last line of this kind says. Large outputs are searched by the standard library, which
/// is fast in development builds, too.
fn result_line(output: &[u8]) -> Option<String> {
    let output = String::from_utf8_lossy(output);
    let start = match output.rfind("\nresult=") {
        Some(end_of_line) => end_of_line + 1,
        None => 0,
    };
    let line = output[start..].strip_prefix("result=")?;
    Some(line.split('\n').next().unwrap_or(line).to_owned())
}

fn parse_result(line: &str, expected: Option<&str>) -> Attempt {
    let (kind, rest) = line.split_once(':').unwrap_or((line, ""));
    match kind {
        "ok" | "value" => match expected {
            Some(expected) if expected != rest => Attempt::blocked(["other_content"]),
            _ => Attempt::Succeeded {
                value: rest.to_owned(),
            },
        },
        "errno" | "denied" if !rest.is_empty() => Attempt::blocked(rest.split(',')),
        _ => Attempt::unclear(format!("the probe program printed {line:?}")),
    }
}

fn attempt_of_outcome(outcome: &Outcome) -> Attempt {
    match outcome {
        Outcome::TimedOut => Attempt::blocked(["timed_out"]),
        Outcome::OutOfMemory => Attempt::blocked(["out_of_memory"]),
        Outcome::OutputLimit => Attempt::blocked(["output_limit"]),
        Outcome::Signaled { signal } => Attempt::blocked([format!("signal:{signal}")]),
        other => Attempt::unclear(format!("no result line; the program {other}")),
    }
}

/// The value that the probe program reports for a file's content: length and FNV-1a hash. No
/// content gets into a report.
#[must_use]
pub fn fingerprint(content: &[u8]) -> String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = content.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    format!("{}:{hash:016x}", content.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(outcome: Outcome, stdout: &str, stderr: &str) -> Run {
        Run {
            outcome,
            stdout: stdout.into(),
            stderr: stderr.into(),
            stdout_total: stdout.len() as u64,
            stderr_total: stderr.len() as u64,
            duration: Duration::ZERO,
        }
    }

    #[test]
    fn result_line_decides_the_attempt() {
        let zero = Outcome::Exited { code: 0 };
        assert!(
            run(zero.clone(), "noise\nresult=ok\n", "")
                .attempt(None)
                .is_success()
        );
        assert!(
            run(zero.clone(), "noise", "result=value:3\n")
                .attempt(Some("3"))
                .is_success()
        );
        assert_eq!(
            run(zero.clone(), "result=value:4\n", "").attempt(Some("3")),
            Attempt::blocked(["other_content"])
        );
        assert_eq!(
            run(zero, "result=errno:EPERM,EACCES\n", "").attempt(None),
            Attempt::blocked(["EACCES", "EPERM"])
        );
    }

    #[test]
    fn exit_without_a_result_line_is_unclear() {
        for code in [0, 1, 126, 127] {
            let attempt = run(Outcome::Exited { code }, "not found\n", "").attempt(None);
            assert!(matches!(attempt, Attempt::Unclear { .. }), "{attempt:?}");
        }
        assert!(matches!(
            run(Outcome::Exited { code: 0 }, "result=errno:\n", "").attempt(None),
            Attempt::Unclear { .. }
        ));
        assert_eq!(
            run(Outcome::TimedOut, "", "").attempt(None),
            Attempt::blocked(["timed_out"])
        );
        assert_eq!(
            run(Outcome::Signaled { signal: 31 }, "", "").attempt(None),
            Attempt::blocked(["signal:31"])
        );
    }

    #[tokio::test]
    async fn no_probe_accepts_the_sign_of_wrong_usage() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("probe");
        install(&program).expect("the program");
        let mut bytes = Call::new(["variable"]);
        bytes.arguments.push(vec![0xff]);
        let calls = [
            (Call::new(["memory", "16M"]), "not_a_number"),
            (Call::new(["exit", "-1"]), "not_a_number"),
            (Call::new(["sleep", "", "1s"]), "not_a_number"),
            (Call::new(["spawn"]), "missing_argument"),
            (Call::new(["read"]), "missing_argument"),
            (Call::new(["write", "/dev/null"]), "missing_argument"),
            (Call::new(["make", "/dev/null", "0"]), "missing_argument"),
            (Call::new(["tcp", "token", "10.0.0/80"]), "not_an_address"),
            (
                Call::new(["tcp", "token", "localhost/80"]),
                "not_an_address",
            ),
            (bytes, "not_text"),
        ];
        for (call, sign) in &calls {
            let run = crate::host::run(&program, call).await.expect("a run");
            assert_eq!(run.outcome, Outcome::Exited { code: 64 }, "{call:?}");
            assert_eq!(run.attempt(None), Attempt::blocked([*sign]), "{call:?}");
        }
        // The program reports these two if the kernel denies what every program may do.
        let signs = calls.iter().map(|(_, sign)| *sign);
        let signs: Vec<_> = signs.chain(["no_clock", "no_number"]).collect();
        for probe in crate::probes::all() {
            let mut accepted = probe.denials.iter().map(|denial| denial.sign);
            assert!(accepted.all(|sign| !signs.contains(&sign)), "{}", probe.id);
        }
    }

    #[test]
    fn fingerprints_are_fnv1a() {
        assert_eq!(fingerprint(b""), "0:cbf29ce484222325");
        assert_eq!(fingerprint(b"a"), "1:af63dc4c8601ec8c");
    }
}
