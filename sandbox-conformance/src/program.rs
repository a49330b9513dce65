//! The probe program: one static program without a C runtime, the same on the host and in every sandbox.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sandbox_core::Outcome;

use crate::evidence::Attempt;
use crate::probe::Trouble;

/// The program for this architecture; empty where the build script could not build it.
pub static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

/// Writes the program to the host's disk.
///
/// # Errors
///
/// When the disk refuses, and where there is no program for this target.
pub fn install(path: &Path) -> Result<(), Trouble> {
    if PROGRAM.is_empty() {
        return Err(Trouble::new("there is no probe program for this target"));
    }
    fs::write(path, PROGRAM)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// In a [`Call`]'s arguments: the path of the probe program where it runs.
pub const ITSELF: &str = "{program}";

/// One run of the program: what to try.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// Subcommand and arguments.
    pub arguments: Vec<Vec<u8>>,
    /// What it reads from standard input; `None` is nothing.
    pub stdin: Option<Vec<u8>>,
    /// Time limit inside of a sandbox; `None` is the policy's.
    pub timeout: Option<Duration>,
    /// The value that success must yield; another one means that something else was found there.
    pub expected: Option<String>,
}

impl Call {
    /// A subcommand and its arguments.
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

    /// Demands this value of success.
    #[must_use]
    pub fn expect(mut self, value: impl Into<String>) -> Self {
        self.expected = Some(value.into());
        self
    }

    /// Sets the time limit inside of a sandbox.
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

    /// The arguments for a program that lies at `program`.
    pub fn arguments_for<'a>(&'a self, program: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.arguments.iter().map(move |a| {
            if a == ITSELF.as_bytes() {
                program
            } else {
                a.as_slice()
            }
        })
    }

    /// The arguments for a person.
    #[must_use]
    pub fn text(&self) -> String {
        let words = self.arguments.iter().map(|a| String::from_utf8_lossy(a));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A run of the program that came to an end.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// Standard output that was kept.
    pub stdout: Vec<u8>,
    /// Standard error that was kept.
    pub stderr: Vec<u8>,
    /// How much standard output was written in all.
    pub stdout_total: u64,
    /// How much standard error was written in all.
    pub stderr_total: u64,
    /// How long it took.
    pub duration: Duration,
}

impl Run {
    /// What the run says about the operation that was tried.
    ///
    /// The program says `result=ok`, `result=value:…`, `result=errno:NAME,…` or `result=denied:WORD` on its last line of
    /// standard output (or of standard error, where standard output is what is tested). Without such a line the end of the
    /// program decides, and a program that just exits says nothing: a missing program cannot pass for a stopped attack.
    #[must_use]
    pub fn attempt(&self, expected: Option<&str>) -> Attempt {
        let line = result_line(&self.stdout).or_else(|| result_line(&self.stderr));
        match line {
            Some(line) => said(&line, expected),
            None => ended(&self.outcome),
        }
    }
}

fn result_line(output: &[u8]) -> Option<String> {
    let line = output
        .split(|byte| *byte == b'\n')
        .rev()
        .find_map(|line| line.strip_prefix(b"result="))?;
    Some(String::from_utf8_lossy(line).into_owned())
}

fn said(line: &str, expected: Option<&str>) -> Attempt {
    let (kind, rest) = line.split_once(':').unwrap_or((line, ""));
    match kind {
        "ok" | "value" => match expected {
            Some(expected) if expected != rest => Attempt::blocked(["other_content"]),
            _ => Attempt::Succeeded {
                value: rest.to_owned(),
            },
        },
        "errno" | "denied" if !rest.is_empty() => Attempt::blocked(rest.split(',')),
        _ => Attempt::unclear(format!("the probe program said {line:?}")),
    }
}

fn ended(outcome: &Outcome) -> Attempt {
    match outcome {
        Outcome::TimedOut => Attempt::blocked(["timed_out"]),
        Outcome::OutOfMemory => Attempt::blocked(["out_of_memory"]),
        Outcome::OutputLimit => Attempt::blocked(["output_limit"]),
        Outcome::Signaled { signal } => Attempt::blocked([format!("signal:{signal}")]),
        other => Attempt::unclear(format!("no result line; the program {other}")),
    }
}

/// What the probe program reports of a content: its length and its FNV-1a hash, so that no content gets into a report.
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
    fn a_result_line_decides() {
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
    fn without_a_result_line_an_exit_says_nothing() {
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
    async fn what_makes_no_sense_is_a_sign_that_no_probe_accepts() {
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
        // Those of a kernel that denies what every program may do are of the same kind.
        let signs = calls.iter().map(|(_, sign)| *sign);
        let signs: Vec<_> = signs.chain(["no_clock", "no_number"]).collect();
        for probe in crate::probes::all() {
            let mut accepted = probe.denials.iter().map(|denial| denial.sign);
            assert!(accepted.all(|sign| !signs.contains(&sign)), "{}", probe.id);
        }
    }

    #[test]
    fn fingerprints_are_fnv() {
        assert_eq!(fingerprint(b""), "0:cbf29ce484222325");
        assert_eq!(fingerprint(b"a"), "1:af63dc4c8601ec8c");
    }
}
