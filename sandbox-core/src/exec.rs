//! Requests to run a program, and their results.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::escape::escape;
use crate::secret::{self, Secret};
use crate::user;
use crate::{Denials, Error, ErrorKind, Outcome, Refusal};

type Result<T, E = Error> = std::result::Result<T, E>;

/// The longest end of standard error in the error of [`ExecResult::check`], in bytes.
const STDERR_TAIL: usize = 1024;

/// One execution in a sandbox: a program and its arguments, as in [`std::process::Command`].
///
/// ```
/// use sandbox_core::ExecRequest;
/// use std::time::Duration;
///
/// let request = ExecRequest::new("python3")
///     .args(["-c", "print(input())"])
///     .env("LANG", "C.UTF-8")
///     .timeout(Duration::from_secs(5));
/// assert_eq!(request.argv.len(), 3);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecRequest {
    /// The program, by name or by path inside the sandbox, and its arguments. Bytes, as in Linux. A
    /// relative path with a slash starts in the working folder.
    pub argv: Vec<Vec<u8>>,
    /// Environment variables, in addition to the specification's.
    pub env: BTreeMap<String, String>,
    /// Secrets by name: see [`ExecRequest::secret`].
    pub secrets: BTreeMap<String, Secret>,
    /// Working folder; the sandbox's for `None`. A relative path starts there.
    pub workdir: Option<String>,
    /// Time limit. A policy's shorter limit takes precedence.
    pub timeout: Option<Duration>,
    /// Whether the sandbox's log gets the output too.
    pub log: bool,
    /// The size of the program's terminal; `None` for pipes: see [`ExecRequest::terminal`].
    pub terminal: Option<TerminalSize>,
    /// User that the program runs as; the sandbox's for `None`: see [`ExecRequest::user`].
    pub user: Option<String>,
}

/// The size of a terminal in characters. 0 means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Number of rows.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

impl TerminalSize {
    /// This many rows and columns.
    #[must_use]
    pub const fn new(rows: u16, columns: u16) -> Self {
        Self { rows, columns }
    }
}

impl Default for TerminalSize {
    /// 24 rows and 80 columns.
    fn default() -> Self {
        Self::new(24, 80)
    }
}

impl ExecRequest {
    /// Runs `program` without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            argv: vec![bytes(program)],
            env: BTreeMap::new(),
            secrets: BTreeMap::new(),
            workdir: None,
            timeout: None,
            log: true,
            terminal: None,
            user: None,
        }
    }

    /// Runs `script` with the sandbox's `/bin/sh`.
    pub fn shell(script: impl AsRef<OsStr>) -> Self {
        Self::new("/bin/sh").arg("-c").arg(script)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.argv.push(bytes(argument));
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.argv.extend(arguments.into_iter().map(bytes));
        self
    }

    /// Sets an environment variable.
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

    /// Sets whether the sandbox's log gets the output too, which is the default.
    #[must_use]
    pub fn log(mut self, log: bool) -> Self {
        self.log = log;
        self
    }

    /// Gives the program a terminal of this size: a new one, which only the sandbox sees. The
    /// caller's terminal is never passed on.
    ///
    /// - Everything that the program writes is standard output. Lines end with `\r\n`, and input
    ///   is echoed, unless the program changes that.
    /// - Input is what is typed: `\x03` is Ctrl-C. The end of standard input is Ctrl-D
    ///   (the terminal's end-of-file character), and so is [`crate::Stdin::Null`]. A program that
    ///   reads on after it waits until its time limit.
    /// - [`crate::Execution::resize`] changes the size.
    /// - `TERM` is `xterm` unless the environment says otherwise.
    ///
    /// ```
    /// use sandbox_core::{ExecRequest, TerminalSize};
    ///
    /// let shell = ExecRequest::new("bash").terminal(TerminalSize::new(24, 80));
    /// # assert!(shell.terminal.is_some());
    /// ```
    #[must_use]
    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    /// Runs the program as this user of the sandbox: `root`, a number, or `uid:gid`.
    ///
    /// The sandbox's own user is always possible ([`crate::SandboxSpec::user`]). `root` is possible
    /// where code and agent are users of a namespace of the sandbox's own: on the local tier of a
    /// caller who is root. It is user 0 without capabilities, and is confined like all code. It
    /// may change files of user 0 inside, but not those of the sandbox's user.
    /// Elsewhere, and for every other user, the execution is refused with
    /// [`ErrorKind::Unsupported`] and the reason.
    ///
    /// ```
    /// use sandbox_core::ExecRequest;
    ///
    /// let request = ExecRequest::new("id").user("root");
    /// assert!(request.validate().is_ok());
    /// assert!(ExecRequest::new("id").user("nobody").validate().is_err());
    /// ```
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The user and the group of the request, if it names them.
    #[must_use]
    pub fn user_ids(&self) -> Option<(u32, Option<u32>)> {
        self.user.as_deref().and_then(user::parse)
    }

    /// Checks for values that no sandbox can run.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`], and [`ErrorKind::BadWorkdir`] for the working folder.
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
        secret::check(self).or_else(bad)?;
        if let Some(user) = &self.user
            && self.user_ids().is_none()
        {
            return bad(format!("user {user:?}: {}", user::FORM));
        }
        if let Some(workdir) = &self.workdir
            && (workdir.is_empty() || workdir.contains('\0'))
        {
            return Err(Error::new(
                ErrorKind::BadWorkdir,
                "execute",
                format!("working folder {workdir:?} is empty or has a NUL inside"),
            ));
        }
        Ok(())
    }
}

fn bytes(argument: impl AsRef<OsStr>) -> Vec<u8> {
    argument.as_ref().as_encoded_bytes().to_vec()
}

/// The end of an execution, as a backend reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// Why output may be missing although no limit was reached.
    pub incomplete: Option<String>,
    /// Processes that outlived the program and were killed.
    pub stragglers: u32,
    /// Processor time, if the backend knows it.
    pub cpu_time: Option<Duration>,
    /// Largest resident memory of one of its processes in bytes, if the backend knows it.
    pub max_rss: Option<u64>,
    /// See [`ExecResult::read`].
    pub read: Option<u64>,
    /// See [`ExecResult::written`].
    pub written: Option<u64>,
    /// See [`ExecResult::egress_sent`].
    pub egress_sent: Option<u64>,
    /// See [`ExecResult::egress_received`].
    pub egress_received: Option<u64>,
    /// Operations that were refused and how often, as far as the backend knows.
    pub refused: Vec<(Refusal, u64)>,
    /// Connections that rules denied to the sandbox while it ran.
    pub denials: Denials,
}

impl ExecEnd {
    /// An end with only the outcome known.
    #[must_use]
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            incomplete: None,
            stragglers: 0,
            cpu_time: None,
            max_rss: None,
            read: None,
            written: None,
            egress_sent: None,
            egress_received: None,
            refused: Vec::new(),
            denials: Denials::default(),
        }
    }
}

/// As a number of milliseconds, to the microsecond.
fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((duration.as_secs_f64() * 1e6).round() / 1e3)
}

#[expect(clippy::ref_option, reason = "serde passes the field")]
pub(crate) fn optional_milliseconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => milliseconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}

/// The captured part of one output stream.
///
/// In JSON, an object with `text`, `total` and, if the text cannot represent the bytes, `base64`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes of the stream, up to its limit.
    pub bytes: Vec<u8>,
    /// How many bytes the program wrote.
    pub total: u64,
}

impl Serialize for Captured {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text();
        // A character that the limit cut in half is no reason for base64.
        let base64 = match self.bytes.starts_with(text.as_bytes()) {
            true => None,
            false => Some(STANDARD.encode(&self.bytes)),
        };
        let mut fields = serializer.serialize_struct("Captured", 3)?;
        fields.serialize_field("text", &text)?;
        fields.serialize_field("total", &self.total)?;
        match &base64 {
            Some(base64) => fields.serialize_field("base64", base64)?,
            None => fields.skip_field("base64")?,
        }
        fields.end()
    }
}

impl Captured {
    /// Whether the program wrote more than was captured.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > self.bytes.len() as u64
    }

    /// Returns the bytes as text. Replaces invalid UTF-8, and omits a character that the limit cut.
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

/// The result of an execution.
///
/// A program that fails is a result too: [`ExecResult::check`] turns it into an error.
///
/// In JSON, durations are numbers of milliseconds: `duration_ms`, `timeout_ms`, `cpu_time_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// Time from the request to the end, including the time that a receiver of the output took.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
    /// The time limit that applied: the shorter one of the request's and the sandbox's.
    #[serde(rename = "timeout_ms", serialize_with = "milliseconds")]
    pub timeout: Duration,
    /// Why output may be missing although no limit was reached.
    pub incomplete: Option<String>,
    /// Processes that outlived the program and were killed.
    pub stragglers: u32,
    /// Processor time, if the backend knows it.
    #[serde(rename = "cpu_time_ms", serialize_with = "optional_milliseconds")]
    pub cpu_time: Option<Duration>,
    /// Largest resident memory of one of its processes in bytes, if the backend knows it.
    #[serde(rename = "max_rss_bytes")]
    pub max_rss: Option<u64>,
    /// Bytes that it read from block devices, if the backend knows it: the program, and those of its
    /// children that it waited for. What is in the page cache or in memory is not counted.
    #[serde(rename = "read_bytes")]
    pub read: Option<u64>,
    /// Bytes that it wrote to block devices, in the same way.
    #[serde(rename = "written_bytes")]
    pub written: Option<u64>,
    /// Bytes that connections of the sandbox sent while it ran. `None` without rules for
    /// connections: the host does not see them then. Concurrent executions each report all.
    #[serde(rename = "egress_sent_bytes")]
    pub egress_sent: Option<u64>,
    /// Bytes that servers sent to the sandbox while it ran.
    #[serde(rename = "egress_received_bytes")]
    pub egress_received: Option<u64>,
    /// What was denied, as far as it is known: see [`crate::Denial`].
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
            read: end.read,
            written: end.written,
            egress_sent: end.egress_sent,
            egress_received: end.egress_received,
            denials,
        }
    }

    /// The exit code; `None` if the program did not exit by itself.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        self.outcome.exit_code()
    }

    /// Whether the program exited with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.outcome.success()
    }

    /// Returns an error unless the program exited with code 0.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// # use std::sync::Arc;
    /// # use sandbox_core::fake::{FakeAnswer, FakeBackend};
    /// # use sandbox_core::{CapabilityPolicy, ExecRequest, SandboxClient, SandboxSpec};
    /// # let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("42\n")));
    /// # let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
    /// # let sandbox = client.create(&SandboxSpec::new("example")).await?;
    /// let version = sandbox.exec(&ExecRequest::new("cat").arg("/etc/version")).await?;
    /// println!("{}", version.check()?.stdout_text());
    /// # Ok::<(), sandbox_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ProgramFailed`] with the outcome and the end of standard error.
    pub fn check(&self) -> Result<&Self> {
        if self.success() {
            return Ok(self);
        }
        let stderr = &self.stderr.bytes;
        let tail = &stderr[stderr.len().saturating_sub(STDERR_TAIL)..];
        let tail = String::from_utf8_lossy(tail);
        let context = match tail.trim() {
            "" => self.outcome.to_string(),
            tail => format!("{}: {}", self.outcome, escape(tail)),
        };
        Err(Error::new(ErrorKind::ProgramFailed, "run program", context))
    }

    /// Returns standard output as text: see [`Captured::text`].
    #[must_use]
    pub fn stdout_text(&self) -> String {
        self.stdout.text()
    }

    /// Returns standard error as text: see [`Captured::text`].
    #[must_use]
    pub fn stderr_text(&self) -> String {
        self.stderr.text()
    }

    /// Returns standard output followed by standard error, as text.
    #[must_use]
    pub fn output(&self) -> String {
        self.stdout_text() + &self.stderr_text()
    }

    /// Whether the program wrote more to either stream than was captured.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.stdout.truncated() || self.stderr.truncated()
    }
}
