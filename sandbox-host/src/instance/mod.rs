//! A running sandbox behind its agent.

mod calls;
mod connect;
mod kernel_files;
mod outcome;
mod user;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::{
    Builtin, ExecProgram, ExecRequest as AgentRequest, ExitKind, FrameKind, TerminalSize, Welcome,
};
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream, Source};
use sandbox_core::{ByteSize, EnforcementReport, Error, ErrorKind, ExecRequest, Result, Workspace};

use crate::carrier::{Carrier, Carrying, RemoteCarrier};
use crate::connection::Connection;
use crate::execution::{Finish, follow};
use crate::failure::failure_error;
use crate::open_stream::OpenStream;
use crate::output_folder::OutputFolder;
use crate::safe_path::{Identity, LinkRule, PathError};
use crate::sandbox::AttachedSandbox;
use crate::tcp::code::ConnectionReports;
use crate::{Counters, Isolator, copy};

/// The most bytes kept of a file operation's messages.
const MESSAGE_LIMIT: usize = 4096;

/// The kind of a terminal, if the environment does not say it. Programs know it everywhere.
const TERM: &str = "xterm";

/// A sandbox whose agent answers.
pub struct AgentInstance {
    connection: Connection,
    sandbox: AttachedSandbox,
    /// Whether dropping the instance ends the sandbox.
    owned: bool,
    /// What the agent said of itself.
    welcome: Welcome,
    isolator: Arc<dyn Isolator>,
    /// The number of this client's running executions.
    running: AtomicUsize,
    /// The counters at the last end of an execution.
    counters: Mutex<Counters>,
    /// This process's part in the connections of code, once it carries them.
    carrying: OnceLock<Carrying>,
    /// Held while this process becomes the carrier.
    becoming_carrier: tokio::sync::Mutex<()>,
    /// The carrier of a detached sandbox with rules, while this process is not.
    remote: Option<RemoteCarrier>,
    /// Receives the ends of connections of code.
    reports: ConnectionReports,
    /// The workspace, if the sandbox works on a copy.
    workspace: Option<copy::WorkspaceCopy>,
}

impl std::fmt::Debug for AgentInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentInstance")
            .field("tier", &self.isolator.tier())
            .finish_non_exhaustive()
    }
}

impl AgentInstance {
    /// Replaces the enforcement report, for backends that check it through the agent. Call this
    /// before any other use of the instance.
    pub fn set_enforcement(&mut self, report: EnforcementReport) {
        self.sandbox.enforcement = report;
    }

    /// Replaces the environment of all executions, below the request's own. For sandboxes that were
    /// started before their user was known. Call this before any other use of the instance.
    pub fn set_environment(&mut self, env: BTreeMap<String, String>) {
        self.sandbox.env = env;
    }

    /// The Landlock ABI that the agent found in the sandbox, 0 without Landlock. For backends that
    /// cannot query it.
    #[must_use]
    pub fn landlock_abi(&self) -> u32 {
        self.welcome.landlock_abi
    }

    /// Whether the sandbox is known to have ended or to be unreachable.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.connection.ended().is_some()
    }

    /// Copies the workspace into the sandbox, for isolators that cannot mount the folder.
    /// [`Instance::sync`] and [`Instance::stop`] copy changes back; each file and all files
    /// together are limited to `size`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if the folder cannot be read or does not fit into the sandbox.
    pub async fn bring_workspace(&mut self, workspace: &Workspace, size: ByteSize) -> Result<()> {
        let brought = copy::WorkspaceCopy::bring(self, workspace, size).await;
        self.workspace = Some(brought.map_err(|error| error.on(self.isolator.tier()))?);
        Ok(())
    }

    /// Copies the workspace back before the sandbox ends, unless this client has ended it already.
    async fn last_sync(&self) -> Result<()> {
        let Some(workspace) = &self.workspace else {
            return Ok(());
        };
        if workspace.is_over() {
            return Ok(());
        }
        let synced = self.sync().await;
        workspace.end();
        synced.map(drop)
    }

    /// Opens an output folder of the host.
    pub(crate) fn output_folder(&self, path: &Path) -> Result<OutputFolder, PathError> {
        OutputFolder::open(path, &self.sandbox.writable, self.sandbox.follow_links)
    }

    /// The rule for links in paths of the host that are read.
    pub(crate) fn link_rule(&self) -> LinkRule {
        let writable = self.sandbox.writable.iter().map(PathBuf::as_path);
        LinkRule::new(self.sandbox.follow_links).writable(Identity::of_paths(writable))
    }

    fn request(
        &self,
        program: ExecProgram,
        request: Option<&ExecRequest>,
        stdin: bool,
    ) -> AgentRequest {
        let mut env = self.sandbox.env.clone();
        env.extend(request.into_iter().flat_map(|request| request.env.clone()));
        let terminal = request.and_then(|request| request.terminal);
        if terminal.is_some() {
            env.entry("TERM".to_owned()).or_insert_with(|| TERM.into());
        }
        let timeout = request.map_or(Some(self.sandbox.file_timeout), |request| request.timeout);
        AgentRequest {
            program,
            env: env
                .into_iter()
                .map(|(name, value)| format!("{name}={value}").into_bytes())
                .collect(),
            workdir: match request.and_then(|request| request.workdir.as_deref()) {
                Some(workdir) => workdir.into(),
                None => Vec::new(),
            },
            stdin,
            timeout_ms: timeout.map_or(0, |timeout| {
                u64::try_from(timeout.as_millis())
                    .unwrap_or(u64::MAX)
                    .max(1)
            }),
            log: request.is_some_and(|request| request.log),
            terminal: terminal.map(|size| TerminalSize {
                rows: size.rows,
                columns: size.columns,
            }),
            root: request.is_some_and(|request| self.is_root(request)),
        }
    }

    fn open(&self, kind: FrameKind, message: &[u8], limit: Option<Duration>) -> Result<OpenStream> {
        self.connection
            .open_stream(kind, message, limit)
            .map_err(|error| error.on(self.isolator.tier()))
    }

    /// Runs a built-in operation of the agent to its end.
    pub(crate) async fn builtin(
        &self,
        builtin: Builtin,
        stdin: Option<Source>,
        sink: &mut dyn OutputSink,
    ) -> Result<()> {
        let tier = self.isolator.tier();
        let request = self.request(ExecProgram::Builtin(builtin), None, stdin.is_some());
        let stream = self.open(
            FrameKind::Exec,
            &request.encode(),
            Some(self.sandbox.file_timeout),
        )?;
        let mut messages = FailureText {
            sink,
            stderr: Vec::new(),
        };
        let failed =
            |context: String| Err(Error::new(ErrorKind::Path, "access file", context).on(tier));
        match follow(stream, stdin.into(), &mut messages).await {
            Finish::Exited {
                stdin_error: Some(error),
                ..
            } => Err(Error::new(
                ErrorKind::Io,
                "read the content to write",
                error.to_string(),
            )
            .on(tier)),
            // The receiver stopped the operation and knows why.
            Finish::Exited { stopped: true, .. } => Ok(()),
            Finish::Exited { report, .. } => match report.kind {
                ExitKind::Exited(0) => Ok(()),
                ExitKind::TimedOut => failed(format!(
                    "the file operation did not end within {:?}, the policy's file_timeout",
                    self.sandbox.file_timeout
                )),
                kind => failed(format!(
                    "the agent's file operation ended with {kind:?} {}",
                    sandbox_core::spi::escape(&String::from_utf8_lossy(&messages.stderr))
                )),
            },
            Finish::Failed(failure) => Err(failure_error(tier, &failure)),
            Finish::Lost { reason, .. } => Err(self.ended_error(reason)),
        }
    }

    /// The carrier of the connections of code, if it is this process.
    fn carrier(&self) -> Option<&Carrier> {
        self.carrying.get().map(|carrying| &*carrying.carrier)
    }

    fn ended_error(&self, reason: String) -> Error {
        Error::new(ErrorKind::SandboxEnded, "use sandbox", reason).on(self.isolator.tier())
    }

    async fn destroy(&self, reason: &str) -> Result<()> {
        let destroyed = self.isolator.destroy().await;
        self.connection.close(reason);
        destroyed
    }
}

struct FailureText<'a> {
    sink: &'a mut dyn OutputSink,
    stderr: Vec<u8>,
}

#[async_trait]
impl OutputSink for FailureText<'_> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        match stream {
            OutputStream::Stdout => self.sink.write(stream, bytes).await,
            OutputStream::Stderr => {
                let room = MESSAGE_LIMIT - self.stderr.len();
                self.stderr
                    .extend_from_slice(&bytes[..bytes.len().min(room)]);
                Flow::Continue
            }
        }
    }
}

/// An output sink that discards all output.
pub(crate) struct DiscardSink;

#[async_trait]
impl OutputSink for DiscardSink {
    async fn write(&mut self, _stream: OutputStream, _bytes: &[u8]) -> Flow {
        Flow::Continue
    }
}

impl Drop for AgentInstance {
    fn drop(&mut self) {
        if self.owned {
            self.isolator.destroy_soon();
        }
    }
}
