//! Executions: what to run, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Denials, Error, ErrorKind, Outcome, Refusal, Result};

/// One execution in a sandbox: a program and its arguments, never a shell string.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecRequest {
    /// Program, by name or by path inside of the sandbox, and its arguments. Bytes, as Linux takes them.
    pub argv: Vec<Vec<u8>>,
    /// Variables on top of the specification's.
    pub env: BTreeMap<String, String>,
    /// Working folder; `None` is the sandbox's.
    pub workdir: Option<String>,
    /// Time limit; never more than the policy's.
    pub timeout: Option<Duration>,
    /// Whether the output goes into the sandbox's log as well.
    pub log: bool,
}

impl ExecRequest {
    /// Runs `program` without arguments.
    pub fn new(program: impl Into<Vec<u8>>) -> Self {
        Self {
            argv: vec![program.into()],
            env: BTreeMap::new(),
            workdir: None,
            timeout: None,
            log: true,
        }
    }

    /// Runs `script` in the sandbox's `/bin/sh`.
    pub fn shell(script: impl Into<Vec<u8>>) -> Self {
        Self::new("/bin/sh").arg("-c").arg(script)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.argv.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<Vec<u8>>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn workdir(mut self, workdir: impl Into<String>) -> Self {
        self.workdir = Some(workdir.into());
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Checks what no sandbox could run.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`].
    pub fn validate(&self) -> Result<()> {
        let bad = |context: String| Err(Error::new(ErrorKind::InvalidRequest, "execute", context));
        if self.argv.first().is_none_or(Vec::is_empty) {
            return bad("the program's name is empty".into());
        }
        for (index, argument) in self.argv.iter().enumerate() {
            if argument.contains(&0) {
                return bad(format!("argument {index} has a NUL inside"));
            }
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return bad(format!(
                    "environment variable {name:?}: no '=' in its name, no NUL anywhere"
                ));
            }
        }
        if let Some(workdir) = &self.workdir
            && (!workdir.starts_with('/') || workdir.contains('\0'))
        {
            return Err(Error::new(
                ErrorKind::BadWorkdir,
                "execute",
                format!(
                    "working folder {workdir:?} is not an absolute path inside of the sandbox without NUL"
                ),
            ));
        }
        Ok(())
    }
}

/// The end of an execution, as a backend tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// Some output may be missing although no cap was reached, and why.
    pub incomplete: Option<String>,
    /// Processes that outlived the program and were killed.
    pub stragglers: u32,
    /// Processor time, where the backend knows it.
    pub cpu_time: Option<Duration>,
    /// Largest resident memory of one of its processes in bytes, where the backend knows it.
    pub max_rss: Option<u64>,
    /// What it was refused, and how often, as far as the backend knows.
    pub refused: Vec<(Refusal, u64)>,
}

impl ExecEnd {
    /// An end of which only the outcome is known.
    #[must_use]
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            incomplete: None,
            stragglers: 0,
            cpu_time: None,
            max_rss: None,
            refused: Vec::new(),
        }
    }
}

/// What was kept of one output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes that were kept: the first ones, up to the cap.
    pub bytes: Vec<u8>,
    /// How many bytes were written in all.
    pub total: u64,
}

impl Captured {
    /// Whether more was written than kept.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > self.bytes.len() as u64
    }

    /// As text: what is not UTF-8 is replaced, and a character that the cap cut in half is left out.
    #[must_use]
    pub fn text(&self) -> String {
        let mut bytes = self.bytes.as_slice();
        if self.truncated()
            && let Err(error) = std::str::from_utf8(bytes)
            && error.error_len().is_none()
        {
            bytes = &bytes[..error.valid_up_to()];
        }
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// What came of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// From the request to the end, the time that a receiver of the output took included.
    pub duration: Duration,
    /// The time limit that held: the request's, or the sandbox's where that is shorter or the request has none.
    pub timeout: Duration,
    /// Some output may be missing although no cap was reached, and why.
    pub incomplete: Option<String>,
    /// Processes that outlived the program and were killed.
    pub stragglers: u32,
    /// Processor time, where the backend knows it.
    pub cpu_time: Option<Duration>,
    /// Largest resident memory of one of its processes in bytes, where the backend knows it.
    pub max_rss: Option<u64>,
    /// What was denied, as far as that can be known: see [`crate::Denial`].
    pub denials: Denials,
}

impl ExecResult {
    pub(crate) fn new(
        end: ExecEnd,
        stdout: Captured,
        stderr: Captured,
        duration: Duration,
        timeout: Duration,
        denials: Denials,
    ) -> Self {
        Self {
            outcome: end.outcome,
            stdout,
            stderr,
            duration,
            timeout,
            incomplete: end.incomplete,
            stragglers: end.stragglers,
            cpu_time: end.cpu_time,
            max_rss: end.max_rss,
            denials,
        }
    }

    /// The exit code; `None` when the program did not exit by itself.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        self.outcome.exit_code()
    }

    /// Whether the program exited with code 0.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.outcome.ok()
    }

    /// Standard output as text.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        self.stdout.text()
    }

    /// Standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        self.stderr.text()
    }

    /// Standard output, then standard error, as text.
    #[must_use]
    pub fn output(&self) -> String {
        self.stdout_text() + &self.stderr_text()
    }

    /// Whether more was written to either stream than was kept.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.stdout.truncated() || self.stderr.truncated()
    }
}
