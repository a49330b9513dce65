//! A running sandbox behind its agent.

mod calls;
mod connect;
mod outcome;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::{Builtin, ExecRequest as AgentRequest, ExitKind, Kind, Program};
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream, Source};
use sandbox_core::{ByteSize, EnforcementReport, Error, ErrorKind, ExecRequest, Result, Workspace};

use crate::connection::Connection;
use crate::execution::{Finish, follow};
use crate::failure::failure_error;
use crate::open_stream::OpenStream;
use crate::output_folder::OutputFolder;
use crate::safe_path::{Identity, LinkRule, PathError};
use crate::sandbox::AttachedSandbox;
use crate::{Counters, Isolator, copy};

/// How long a file operation may take in the agent.
const FILE_TIMEOUT: Duration = Duration::from_secs(600);

/// How much of a file operation's own messages is kept.
const MESSAGE_LIMIT: usize = 4096;

/// A sandbox whose agent answers.
pub struct AgentInstance {
    connection: Connection,
    sandbox: AttachedSandbox,
    /// Whether the sandbox ends with this handle.
    owned: bool,
    /// The Landlock ABI that the agent sees, 0 without.
    landlock_abi: u32,
    isolator: Arc<dyn Isolator>,
    /// How many executions of this client run.
    running: AtomicUsize,
    /// As they were when an execution last ended.
    counters: Mutex<Counters>,
    /// The workspace, where the sandbox has a copy of it.
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
    /// Says what is enforced in the end: what a backend has found out through the agent itself, before anybody else uses it.
    pub fn set_enforcement(&mut self, report: EnforcementReport) {
        self.sandbox.enforcement = report;
    }

    /// Says what the environment of every execution is, below the request's own: of a sandbox that was built before it was known for
    /// whom, before anybody else uses it.
    pub fn set_environment(&mut self, env: BTreeMap<String, String>) {
        self.sandbox.env = env;
    }

    /// The Landlock ABI that the agent has found in the sandbox, 0 without Landlock: for a backend that did not know it before.
    #[must_use]
    pub fn landlock_abi(&self) -> u32 {
        self.landlock_abi
    }

    /// Whether the sandbox is known to have ended, or cannot be reached any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.connection.ended().is_some()
    }

    /// Copies the workspace into the sandbox, for an isolator that cannot show it the folder itself: [`Instance::sync`] and
    /// [`Instance::stop`] copy back what the code has changed, files and all together up to `size`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] where the folder cannot be read, or there is no room for it in the sandbox.
    pub async fn bring_workspace(&mut self, workspace: &Workspace, size: ByteSize) -> Result<()> {
        let brought = copy::WorkspaceCopy::bring(self, workspace, size).await;
        self.workspace = Some(brought.map_err(|error| error.on(self.isolator.tier()))?);
        Ok(())
    }

    /// Copies the workspace back before the sandbox ends, unless it has been ended from here already.
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

    /// Which links are followed in the path of a file or folder of the host that is read.
    pub(crate) fn link_rule(&self) -> LinkRule {
        let writable = self.sandbox.writable.iter().map(PathBuf::as_path);
        LinkRule::new(self.sandbox.follow_links).writable(Identity::of_paths(writable))
    }

    fn request(
        &self,
        program: Program,
        request: Option<&ExecRequest>,
        stdin: bool,
    ) -> AgentRequest {
        let mut env = self.sandbox.env.clone();
        env.extend(request.into_iter().flat_map(|request| request.env.clone()));
        let timeout = request.map_or(Some(FILE_TIMEOUT), |request| request.timeout);
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
        }
    }

    fn open(&self, kind: Kind, message: &[u8], limit: Option<Duration>) -> Result<OpenStream> {
        self.connection
            .open_stream(kind, message, limit)
            .map_err(|error| error.on(self.isolator.tier()))
    }

    /// Runs one of the agent's own operations to its end.
    pub(crate) async fn builtin(
        &self,
        builtin: Builtin,
        stdin: Option<Source>,
        sink: &mut dyn OutputSink,
    ) -> Result<()> {
        let tier = self.isolator.tier();
        let request = self.request(Program::Builtin(builtin), None, stdin.is_some());
        let stream = self.open(Kind::Exec, &request.encode(), Some(FILE_TIMEOUT))?;
        let mut messages = Messages {
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
            // The receiver said when it had enough, and knows why.
            Finish::Exited { stopped: true, .. } => Ok(()),
            Finish::Exited { report, .. } => match report.kind {
                ExitKind::Exited(0) => Ok(()),
                kind => failed(format!(
                    "the agent's file operation ended with {kind:?} {}",
                    sandbox_core::escape(&String::from_utf8_lossy(&messages.stderr))
                )),
            },
            Finish::Failed(failure) => Err(failure_error(tier, &failure)),
            Finish::Lost { reason, .. } => Err(self.ended_error(reason)),
        }
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

struct Messages<'a> {
    sink: &'a mut dyn OutputSink,
    stderr: Vec<u8>,
}

#[async_trait]
impl OutputSink for Messages<'_> {
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

/// Takes nothing.
pub(crate) struct Nothing;

#[async_trait]
impl OutputSink for Nothing {
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
