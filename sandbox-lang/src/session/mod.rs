//! Sessions: an interpreter that keeps its variables between pieces of code, the *cells*.
//!
//! A driver of this library runs in the sandbox as an ordinary execution. Its channel to this
//! process is the execution's standard input and output, which it hides from the code. The code's
//! own standard streams are new ones, whose output the driver forwards in frames. A shell has no
//! driver that could do that: its output is the execution's, with a mark at the end of each cell.

mod blocking;
mod branch;
mod cell;
mod channel;
mod driver;
mod frame;
mod interpreter;
mod ladder;
mod message;
mod pool;
mod request;
mod result;
mod shell;
mod worker;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sandbox_core::spi::{ExecutionStarter, unique_name};
use sandbox_core::{ByteSize, Captured, Error, ErrorKind, Result, SandboxHandle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub use blocking::{BlockingSession, BlockingSessions};
pub use pool::{PooledSession, SessionPool};
pub use request::{CellRequest, PlotFormat, SessionRequest};
pub use result::{
    CellError, CellOutcome, CellResult, Display, Lost, MimeData, Plot, SessionState, TraceFrame,
};

use cell::{CellLimits, DISPLAYS_FACTOR};
use worker::{Command, Ended, Note, Settings, Worker};

/// How long an interpreter runs in a sandbox without a lifetime.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How many events of a cell wait for the caller. Then the cell waits too.
const WAITING: usize = 16;

/// Starts sessions in a sandbox.
///
/// ```no_run
/// use sandbox_lang::{SessionRequest, Sessions};
///
/// # async fn example(sandbox: sandbox_core::SandboxHandle) -> sandbox_core::Result<()> {
/// let session = sandbox.session("python".into()).await?;
/// session.run("import math\nradius = 2").await?.check()?;
/// let cell = session.run("print('area')\nround(math.pi * radius ** 2, 2)").await?;
/// assert_eq!(cell.stdout.text(), "area\n");
/// assert_eq!(cell.result.expect("a value").text("text/plain"), Some("12.57"));
/// session.close().await
/// # }
/// ```
#[async_trait]
pub trait Sessions {
    /// Starts an interpreter and waits until it is ready.
    ///
    /// The policy's limits of time and output apply to each cell. Processes and threads that a cell
    /// leaves behind run until the session ends.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::LanguageNotSupported`] for a language without sessions.
    /// - [`ErrorKind::ProgramNotFound`] if the sandbox does not have it.
    /// - [`ErrorKind::SetupFailed`] if the interpreter does not start.
    async fn session(&self, request: SessionRequest) -> Result<Session>;
}

#[async_trait]
impl Sessions for SandboxHandle {
    async fn session(&self, request: SessionRequest) -> Result<Session> {
        let language = request.language()?;
        let mark = unique_name("cell");
        let folder = format!(
            "{}/{}",
            self.temporary_folder(),
            unique_name("sandbox-session")
        );
        let command = |program: &str| driver::command(&language, program, &folder, &mark, &request);
        // Before the program is looked for: a language without sessions has none either way.
        command("")?;
        let program = crate::code::program_of(self, &language, &request.env).await?;
        let mut command = command(&program)?;
        for (name, value) in crate::packages::live_variables(self) {
            command.env.entry(name).or_insert(value);
        }
        let plan = self.plan();
        let output = [plan.stdout_max, plan.stderr_max].map(|most| {
            let asked = request.output_limit.unwrap_or(most);
            asked.min(most).as_u64()
        });
        let now = Instant::now();
        let settings = Settings {
            starter: ExecutionStarter::new(self),
            form: driver::form(&language, &mark),
            command,
            lifetime: plan.lifetime.unwrap_or(LIFETIME),
            idle_timeout: request.idle_timeout,
            end: request.session_timeout.map(|timeout| now + timeout),
            limits: CellLimits {
                time: request.timeout.unwrap_or(plan.timeout).min(plan.timeout),
                output,
                displays: request.display_limit.as_usize() * DISPLAYS_FACTOR,
            },
        };
        let (worker, version) = Worker::start(settings).await?;
        let request_limit = driver::request_limit(&language);
        let tier = self.tier().to_owned();
        Ok(Session::new(
            worker,
            language.name,
            version,
            request_limit,
            tier,
        ))
    }
}

/// A piece of what a cell does, as it happens.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CellEvent {
    /// A piece of standard output. It can end in the middle of a line or a character.
    Stdout(Bytes),
    /// A piece of standard error.
    Stderr(Bytes),
    /// Something was displayed.
    Display(Display),
    /// The value of the last expression.
    Result(Display),
}

/// An interpreter that keeps its variables between cells: see [`Sessions`].
///
/// Cells run one after another, also if several callers run some. Dropping the session kills its
/// interpreter and all processes of its cells; so does the end of the sandbox.
pub struct Session {
    language: String,
    version: String,
    /// The longest code and standard input of a cell.
    request_limit: ByteSize,
    tier: String,
    commands: mpsc::Sender<Command>,
    /// Why the session has ended.
    why: Arc<OnceLock<String>>,
    task: AbortHandle,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("language", &self.language)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    fn new(
        worker: Worker,
        language: String,
        version: String,
        request_limit: ByteSize,
        tier: String,
    ) -> Self {
        let (commands, receiver) = mpsc::channel(1);
        let why = Arc::new(OnceLock::new());
        let task = tokio::spawn(worker.work(receiver, Arc::clone(&why)));
        Self {
            language,
            version,
            request_limit,
            tier,
            commands,
            why,
            task: task.abort_handle(),
        }
    }

    /// The name of the language.
    #[must_use]
    pub fn language(&self) -> &str {
        &self.language
    }

    /// The version of the interpreter, such as `3.11.2`; of a shell, such as
    /// `bash 5.2.15(1)-release`, and `unknown` if it is not bash.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs a cell to its end.
    ///
    /// At its time limit the cell is interrupted, and has two seconds to end. Then the processes
    /// that it started are killed, and after another second the interpreter itself.
    /// [`CellResult::session`] says whether variables were lost.
    ///
    /// Dropping the future interrupts the cell in the same way. The next cell waits for that, and
    /// [`CellResult::lost_before`] says what was lost.
    ///
    /// # Errors
    ///
    /// If the sandbox or the session has ended ([`ErrorKind::SessionEnded`]), or the interpreter
    /// could not be started again. Code that fails is a result: see [`CellResult::check`].
    pub async fn run(&self, cell: impl Into<CellRequest>) -> Result<CellResult> {
        self.run_with(cell, |_| {}).await
    }

    /// As [`Session::run`]. Calls `on_event` with what the cell does as it happens. The cell waits
    /// while the function runs, and its time limit goes on.
    ///
    /// # Errors
    ///
    /// As [`Session::run`].
    pub async fn run_with(
        &self,
        cell: impl Into<CellRequest>,
        mut on_event: impl FnMut(&CellEvent),
    ) -> Result<CellResult> {
        let request = cell.into();
        request.validate(&self.language, self.request_limit)?;
        let (sender, mut notes) = mpsc::channel(WAITING);
        let command = Command::Run {
            request,
            notes: sender,
        };
        self.command(command).await?;
        let mut collected = Collected::default();
        while let Some(note) = notes.recv().await {
            match note {
                Note::Event(event) => {
                    on_event(&event);
                    collected.take(event);
                }
                Note::End(end) => return Ok(collected.finish(*end?)),
            }
        }
        Err(self.ended())
    }

    /// Starts a session with a copy of the interpreter: its variables, modules and functions. From
    /// then on, what one of both changes in memory is unknown to the other, and both run cells at
    /// the same time. Waits for a cell that runs. Python only.
    ///
    /// Files and connections are shared, as after a `fork`. The copy is a process of this session
    /// and ends with it: when this session is dropped or closed, or when a cell made it start its
    /// interpreter again. The branch then starts an interpreter without variables and says so.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidRequest`] in another language, and while the interpreter has threads
    ///   that earlier cells started, because a copy does not have them.
    /// - [`ErrorKind::Unsupported`] in a sandbox that refuses Unix sockets: a local one without
    ///   namespaces.
    /// - [`ErrorKind::SetupFailed`] if the interpreter cannot be copied for another reason.
    /// - [`ErrorKind::SessionEnded`], and as [`Sessions::session`].
    pub async fn branch(&self) -> Result<Self> {
        if self.language != "python" {
            let context = format!("a session of {} has no branches", self.language);
            return Err(
                Error::new(ErrorKind::InvalidRequest, "branch session", context)
                    .on(&self.tier)
                    .with_fix("start another session"),
            );
        }
        let (sender, answer) = oneshot::channel();
        self.command(Command::Branch(sender)).await?;
        let (worker, version) = answer.await.unwrap_or_else(|_| Err(self.ended()))?;
        let (language, tier) = (self.language.clone(), self.tier.clone());
        Ok(Self::new(
            worker,
            language,
            version,
            self.request_limit,
            tier,
        ))
    }

    /// Ends the interpreter and starts a new one, without variables. Waits for a cell that runs.
    ///
    /// # Errors
    ///
    /// As [`Sessions::session`], and [`ErrorKind::SessionEnded`].
    pub async fn restart(&self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        self.command(Command::Restart(sender)).await?;
        answer.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Ends the session. The interpreter has two seconds for what it runs at its exit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionEnded`] if it has ended already.
    pub async fn close(self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        self.command(Command::Close(sender)).await?;
        answer.await.map_err(|_| self.ended())
    }

    /// Whether the interpreter runs. One that ended before the first cell is not started again.
    async fn is_alive(&self) -> bool {
        let (sender, answer) = oneshot::channel();
        self.command(Command::Check(sender)).await.is_ok() && answer.await.unwrap_or(false)
    }

    async fn command(&self, command: Command) -> Result<()> {
        let sent = self.commands.send(command).await;
        sent.map_err(|_| self.ended())
    }

    fn ended(&self) -> Error {
        let why = self
            .why
            .get()
            .map_or("its sandbox or runtime ended", |why| why);
        let context = format!("the session of {} has ended: {why}", self.language);
        Error::new(ErrorKind::SessionEnded, "run cell", context)
            .on(&self.tier)
            .with_fix("start another session in the sandbox")
    }
}

/// What has come of a cell.
#[derive(Debug, Default)]
struct Collected {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    result: Option<Display>,
    displays: Vec<Display>,
}

impl Collected {
    fn take(&mut self, event: CellEvent) {
        match event {
            CellEvent::Stdout(bytes) => self.stdout.extend_from_slice(&bytes),
            CellEvent::Stderr(bytes) => self.stderr.extend_from_slice(&bytes),
            CellEvent::Display(display) => self.displays.push(display),
            CellEvent::Result(display) => self.result = Some(display),
        }
    }

    fn finish(self, ended: Ended) -> CellResult {
        let [stdout, stderr] = ended.written;
        let captured = |bytes: Vec<u8>, written: u64| Captured {
            // A cell that did not end did not say how much it wrote.
            total: written.max(bytes.len() as u64),
            bytes,
        };
        CellResult {
            cell: ended.cell,
            outcome: ended.outcome,
            stdout: captured(self.stdout, stdout),
            stderr: captured(self.stderr, stderr),
            result: self.result,
            displays: self.displays,
            displays_omitted: ended.displays_omitted,
            session: ended.session,
            lost_before: ended.lost_before,
            duration: ended.duration,
        }
    }
}
