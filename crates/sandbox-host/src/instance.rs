//! A running sandbox behind its agent.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sandbox_agent::protocol::{
    Builtin, ExecRequest as AgentRequest, ExitKind, ExitReport, Key, Kind, LogRequest, Program,
};
use sandbox_core::spi::{Flow, Input, Instance, OutputSink, OutputStream, Source};
use sandbox_core::{
    ArtifactLimits, Copied, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export,
    ImageInfo, ImageReference, Outcome, Refusal, Result,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::{Cause, Connection};
use crate::execution::{Finish, follow};
use crate::failure::failure_error;
use crate::greeting::Greeting;
use crate::open_stream::OpenStream;
use crate::sandbox::{AttachedSandbox, Sandbox};
use crate::{Counters, Isolator, copy, export, kills};

/// How long a file operation may take in the agent.
const FILE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long sending the log may take, without what the receiver takes for itself.
const LOG_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the agent may take beyond the grace to end everything when it was asked to stop.
const STOP_OVERTIME: Duration = Duration::from_secs(4);

/// What kills.
const SIGKILL: i32 = 9;

/// How much of a file operation's own messages is kept.
const MESSAGE_LIMIT: usize = 4096;

/// A sandbox whose agent answers.
pub struct AgentInstance {
    connection: Connection,
    sandbox: AttachedSandbox,
    /// Whether the sandbox ends with this handle.
    owned: bool,
    isolator: Arc<dyn Isolator>,
    oom_kills: AtomicU64,
    /// As they were when an execution last ended.
    counters: Mutex<Counters>,
}

impl std::fmt::Debug for AgentInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentInstance")
            .field("tier", &self.isolator.tier())
            .finish_non_exhaustive()
    }
}

/// Ends the sandbox unless the agent has answered.
struct Unconnected(Option<Arc<dyn Isolator>>);

impl Drop for Unconnected {
    fn drop(&mut self) {
        if let Some(isolator) = &self.0 {
            isolator.destroy_soon();
        }
    }
}

impl AgentInstance {
    /// Greets the agent at the other end of `stream` and takes over the sandbox.
    ///
    /// # Behavior
    ///
    /// - Dropping the instance ends the sandbox; so does an agent that breaks the protocol, stops answering or vanishes.
    /// - With [`Sandbox::detached`] dropping it only closes the stream: the agent kills what this client has left running,
    ///   and the sandbox lives on. An agent that breaks the protocol ends it still.
    ///
    /// # Errors
    ///
    /// When the agent does not answer as it should within 10 s. The sandbox has been destroyed then; so it is when this
    /// future is dropped.
    pub async fn connect<S>(
        stream: S,
        sandbox: Sandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let mut guard = Unconnected(Some(Arc::clone(&isolator)));
        match Connection::open(isolator.tier(), stream, Greeting::Hello(&sandbox.settings)).await {
            Ok((connection, _welcome)) => {
                guard.0 = None;
                let owned = !sandbox.detached;
                Ok(Self::over(connection, sandbox.into(), owned, isolator))
            }
            Err(error) => {
                let known = isolator.post_mortem().await;
                let destroyed = isolator.destroy().await;
                guard.0 = None;
                let error = match known {
                    Some(known) => error.with_source(known),
                    None => error,
                };
                if let Err(left) = destroyed {
                    tracing::error!(%left, "a sandbox that did not start could not be removed");
                }
                Err(error)
            }
        }
    }

    /// Says what is enforced in the end: what a backend has found out through the agent itself, before anybody else uses it.
    pub fn set_enforcement(&mut self, report: EnforcementReport) {
        self.sandbox.enforcement = report;
    }

    /// Becomes a later client of a sandbox whose agent listens at the other end of `stream`.
    ///
    /// # Behavior
    ///
    /// - Dropping the instance only closes the stream, as with [`Sandbox::detached`].
    /// - [`Instance::stop`] and [`Instance::kill`] end the sandbox for all of its clients.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for a wrong key or too many clients (16), [`ErrorKind::SandboxEnded`] when the stream
    /// ends before the answer, [`ErrorKind::Protocol`] for an agent of another version, and when no answer comes within
    /// 10 s. The sandbox is left as it is.
    pub async fn attach<S>(
        stream: S,
        key: &Key,
        sandbox: AttachedSandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let (connection, _welcome) =
            Connection::open(isolator.tier(), stream, Greeting::Attach(key)).await?;
        // What was killed or refused before is not this client's to report.
        let before = isolator.counters().await;
        let instance = Self::over(connection, sandbox, false, isolator);
        instance.new_oom_kills(true).await;
        *instance.known_counters() = before;
        Ok(instance)
    }

    fn over(
        connection: Connection,
        sandbox: AttachedSandbox,
        owned: bool,
        isolator: Arc<dyn Isolator>,
    ) -> Self {
        // Whoever broke the protocol loses the sandbox; whoever stopped answering, one that nobody else may use.
        let ended = connection.watch_end();
        let watched = Arc::clone(&isolator);
        tokio::spawn(async move {
            let cause = ended.await;
            if owned || cause == Cause::Violation {
                watched.destroy_soon();
            }
        });
        Self {
            connection,
            sandbox,
            owned,
            isolator,
            oom_kills: AtomicU64::new(0),
            counters: Mutex::default(),
        }
    }

    /// Folders of the host that the code can write to.
    pub(crate) fn writable(&self) -> &[std::path::PathBuf] {
        &self.sandbox.writable
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

    /// How often the kernel has killed for memory since this was last asked. `likely` says whether to look inside where the host does
    /// not know.
    async fn new_oom_kills(&self, likely: bool) -> u64 {
        let now = match self.isolator.oom_kills().await {
            None if likely => kills::inside(self, self.isolator.kill_counts_inside()).await,
            known => known,
        };
        let Some(now) = now else {
            return 0;
        };
        now.saturating_sub(self.oom_kills.fetch_max(now, Ordering::Relaxed))
    }

    fn known_counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the kernel has refused since `before`. The counters are the sandbox's: of executions at the same time, each is told
    /// of what was refused while it ran.
    async fn refused_since(&self, before: Counters) -> impl Iterator<Item = (Refusal, u64)> {
        let now = self.isolator.counters().await;
        let mut known = self.known_counters();
        *known = known.max(now);
        let kinds = [Refusal::ProcessLimit, Refusal::Network];
        kinds
            .into_iter()
            .zip(now.since(before))
            .filter(|(_, times)| *times > 0)
    }

    async fn end(
        &self,
        report: &ExitReport,
        stopped: bool,
        killed: bool,
        elapsed: Duration,
        timeout: Option<Duration>,
        before: Counters,
    ) -> ExecEnd {
        let oom_kills = self.new_oom_kills(kills::likely(report.kind)).await;
        let oom = oom_kills > 0;
        let unknown = |reason: &str| Outcome::Unknown {
            reason: reason.to_owned(),
        };
        let outcome = match report.kind {
            _ if stopped => Outcome::OutputLimit,
            ExitKind::Exited(code) => Outcome::Exited { code: code.into() },
            ExitKind::Signaled(9) if oom => Outcome::OutOfMemory,
            ExitKind::Signaled(signal) => Outcome::Signaled {
                signal: signal.into(),
            },
            // The host's own clock must agree, but for what a timer may be early.
            ExitKind::TimedOut if timeout.is_some_and(|limit| elapsed >= limit.mul_f32(0.9)) => {
                Outcome::TimedOut
            }
            ExitKind::TimedOut => unknown("the agent reported a time-out before its time"),
            ExitKind::Killed if killed => Outcome::Signaled { signal: SIGKILL },
            ExitKind::Killed => unknown("the agent reported a kill that nobody asked for"),
            ExitKind::Lost if oom => Outcome::OutOfMemory,
            ExitKind::Lost => unknown("the supervisor of the program vanished"),
        };
        let mut end = ExecEnd::new(outcome);
        end.stragglers = report.stragglers;
        end.cpu_time = Some(Duration::from_micros(report.cpu_us));
        end.max_rss = report.max_rss_kib.checked_mul(1024);
        end.refused.extend(refused(report));
        end.refused
            .extend(oom.then_some((Refusal::Memory, oom_kills)));
        end.refused.extend(self.refused_since(before).await);
        if report.drain_cut {
            end.incomplete =
                Some("a process held the output open after the program had ended".into());
        }
        end
    }

    async fn lost(&self, reason: String, stopped: bool) -> ExecEnd {
        // There is no agent left to look inside.
        if self.new_oom_kills(false).await > 0 {
            return ExecEnd::new(Outcome::OutOfMemory);
        }
        let known = self.isolator.post_mortem().await;
        let reason = known.map_or(reason.clone(), |known| format!("{reason}; {known}"));
        let incomplete = format!("the sandbox ended during the execution: {reason}");
        let mut end = ExecEnd::new(if stopped {
            // That much the host has seen itself.
            Outcome::OutputLimit
        } else {
            Outcome::Unknown { reason }
        });
        end.incomplete = Some(incomplete);
        end
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

    async fn read_log(
        &self,
        tail: Option<u32>,
        follow_on: bool,
        sink: &mut dyn OutputSink,
    ) -> Result<()> {
        let request = LogRequest {
            tail: tail.unwrap_or(u32::MAX),
            follow: follow_on,
        };
        let limit = (!follow_on).then_some(LOG_TIMEOUT);
        let stream = self.open(Kind::Logs, &request.encode(), limit)?;
        match follow(stream, None.into(), sink).await {
            Finish::Exited { .. } => Ok(()),
            Finish::Failed(failure) => Err(failure_error(self.isolator.tier(), &failure)),
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

/// What the agent says that it refused. A lie here misleads, and frees nobody.
fn refused(report: &ExitReport) -> impl Iterator<Item = (Refusal, u64)> {
    let counts = [
        (Refusal::Program, report.refused_programs),
        (Refusal::Process, report.refused_processes),
    ];
    let some = counts.into_iter().filter(|(_, times)| *times > 0);
    some.map(|(refusal, times)| (refusal, times.into()))
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

struct Log(Vec<u8>);

#[async_trait]
impl OutputSink for Log {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.0.extend_from_slice(bytes);
        // The agent keeps far less; whoever sends more is not our agent.
        if self.0.len() > 64 * 1024 * 1024 {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}

#[async_trait]
impl Instance for AgentInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.sandbox.enforcement
    }

    fn temporary_folder(&self) -> &str {
        self.sandbox
            .env
            .get("TMPDIR")
            .map_or("/tmp", String::as_str)
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        let program = Program::Command {
            argv: request.argv.clone(),
        };
        let message = self.request(program, Some(request), input.stdin.is_some());
        let start = Instant::now();
        let before = *self.known_counters();
        let stream = self.open(Kind::Exec, &message.encode(), request.timeout)?;
        match follow(stream, input, sink).await {
            Finish::Exited {
                report,
                stopped,
                killed,
                stdin_error,
            } => {
                if report.survivors > 0 {
                    self.destroy("processes of an execution could not be killed")
                        .await?;
                }
                let mut end = self
                    .end(
                        &report,
                        stopped,
                        killed,
                        start.elapsed(),
                        request.timeout,
                        before,
                    )
                    .await;
                if let Some(error) = stdin_error {
                    end.incomplete = Some(format!(
                        "standard input could not be read to its end: {error}"
                    ));
                }
                Ok(end)
            }
            Finish::Failed(failure) => Err(failure_error(self.isolator.tier(), &failure)),
            Finish::Lost { reason, stopped } => Ok(self.lost(reason, stopped).await),
        }
    }

    async fn put(&self, path: &str, mode: u32, content: Source) -> Result<()> {
        let builtin = Builtin::Put {
            path: path.into(),
            mode,
        };
        self.builtin(builtin, Some(content), &mut Nothing).await
    }

    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        self.builtin(Builtin::Get { path: path.into() }, None, sink)
            .await
    }

    async fn copy_in(&self, source: &Path, target: &str) -> Result<Copied> {
        let copied = copy::copy_in(self, source, target).await;
        copied.map_err(|error| error.on(self.isolator.tier()))
    }

    async fn copy_out(
        &self,
        source: &str,
        target: &Path,
        limits: ArtifactLimits,
    ) -> Result<Copied> {
        let copied = copy::copy_out(self, source, target, limits).await;
        copied.map_err(|error| error.on(self.isolator.tier()))
    }

    async fn export(
        &self,
        paths: &[String],
        folder: &Path,
        limits: ArtifactLimits,
    ) -> Result<Export> {
        export::export(self, paths, folder, limits).await
    }

    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        if let Some(ended) = self.connection.ended() {
            return Err(self.ended_error(ended.reason));
        }
        self.isolator.commit(tag).await
    }

    async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>> {
        let mut log = Log(Vec::new());
        self.read_log(tail, false, &mut log).await?;
        Ok(log.0)
    }

    async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        self.read_log(tail, true, sink).await
    }

    async fn stop(&self, grace: Duration) -> Result<()> {
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.connection.control(Kind::Stop, &grace_ms.to_le_bytes());
        let bound = grace.saturating_add(STOP_OVERTIME);
        let stopped = tokio::time::timeout(bound, self.connection.watch_end()).await;
        if stopped.is_err() {
            tracing::warn!(
                tier = self.isolator.tier(),
                "the agent did not stop in time and is killed"
            );
        }
        self.destroy("the sandbox was stopped").await
    }

    async fn kill(&self) -> Result<()> {
        self.destroy("the sandbox was killed").await
    }
}

impl Drop for AgentInstance {
    fn drop(&mut self) {
        if self.owned {
            self.isolator.destroy_soon();
        }
    }
}
