//! A started execution: a stream of events, standard input, signals, and the result.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::capture::{Capture, Excess};
use crate::denial::{self, DenialLog};
use crate::input::{ControlReceiver, ControlRequest, Input};
use crate::running::Running;
use crate::spi::{Flow, OutputSink, OutputStream};
use crate::{
    Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Plan, Result, Stdin, StdinWriter,
    TerminalSize,
};

/// How many events are buffered until the program has to wait.
const WAITING: usize = 8;

/// The largest piece of output in one event.
const PIECE: usize = 64 * 1024;

/// A started execution, which runs independently of its caller.
///
/// Its events come from [`Execution::next_event`], or from its [`Stream`] implementation with
/// `StreamExt::next`. At most 1 MiB of events is buffered; then the program waits for the caller,
/// and its time limit continues. [`Execution::wait`] reads the remaining events and returns the
/// result. It can be called at any time and more than once.
///
/// Dropping it kills all processes of the execution. So does dropping its
/// [`crate::SandboxHandle`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # use std::sync::Arc;
/// # use sandbox_core::fake::{FakeAnswer, FakeBackend};
/// use sandbox_core::{CapabilityPolicy, ExecEvent, ExecRequest, SandboxClient, SandboxSpec, Stdin};
///
/// # let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("a\nb\n")));
/// # let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
/// let sandbox = client.create(&SandboxSpec::new("example")).await?;
/// let request = ExecRequest::new("sort");
/// let mut execution = sandbox.start(&request, Stdin::from_bytes("b\na\n")).await?;
/// let mut sorted = Vec::new();
/// while let Some(event) = execution.next_event().await? {
///     match event {
///         ExecEvent::Stdout(bytes) => sorted.extend_from_slice(&bytes),
///         ExecEvent::Denied(denial) => eprintln!("{denial}"),
///         _ => {}
///     }
/// }
/// assert_eq!(sorted, b"a\nb\n");
/// assert_eq!(execution.wait().await?.exit_code(), Some(0));
/// # Ok::<(), sandbox_core::Error>(()) }).unwrap();
/// ```
pub struct Execution {
    // Does not keep the sandbox alive, which ends with its handle.
    tier: String,
    has_terminal: bool,
    plan: Arc<Plan>,
    log: DenialLog,
    task: JoinHandle<Result<ExecResult>>,
    events: mpsc::Receiver<ExecEvent>,
    control: mpsc::Sender<ControlRequest>,
    stdin: Option<StdinWriter>,
    /// Events to return before those of the channel.
    known: VecDeque<ExecEvent>,
    /// The output that [`Execution::wait`] has read so far.
    capture: Option<Capture>,
    end: Option<Result<ExecResult>>,
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("tier", &self.tier)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Execution {
    /// Starts the program and waits until it runs. `open` closes with the sandbox's handle.
    pub(crate) async fn start(
        running: Arc<Running>,
        open: watch::Receiver<()>,
        request: &ExecRequest,
        stdin: Stdin,
    ) -> Result<Self> {
        let (stdout, stderr) = (running.plan.stdout_max, running.plan.stderr_max);
        let bounds = Bounds {
            timeout: running.time_limit(request),
            capture: Capture::counting(stdout, stderr),
        };
        Self::start_within(bounds, running, open, request, stdin).await
    }

    /// As [`Execution::start`] with other limits than the policy's.
    pub(crate) async fn start_within(
        bounds: Bounds,
        running: Arc<Running>,
        open: watch::Receiver<()>,
        request: &ExecRequest,
        stdin: Stdin,
    ) -> Result<Self> {
        request.validate()?;
        let (source, stdin) = stdin.open();
        let (give_request, control) = ControlReceiver::channel();
        let (give_event, events) = mpsc::channel(WAITING);
        let work = work(
            bounds,
            Arc::clone(&running),
            request.clone(),
            Input::new(source, control),
            Forward {
                events: give_event,
                started: false,
            },
        );
        let mut execution = Self {
            tier: running.tier.clone(),
            has_terminal: request.terminal.is_some(),
            plan: Arc::clone(&running.plan),
            log: running.denials.clone(),
            task: tokio::spawn(until_closed(running.tier.clone(), open, work)),
            events,
            control: give_request,
            stdin,
            known: VecDeque::new(),
            capture: None,
            end: None,
        };
        match execution.next_event().await? {
            Some(event) => execution.known.push_front(event),
            None => unreachable!("the first event of an execution is its start or its error"),
        }
        Ok(execution)
    }

    /// Returns the next event, or `None` after [`ExecEvent::Exited`]. Dropping the future loses no
    /// event.
    ///
    /// # Errors
    ///
    /// If the sandbox failed. No event follows.
    pub async fn next_event(&mut self) -> Result<Option<ExecEvent>> {
        let event = std::future::poll_fn(|context| self.poll(context)).await;
        event.transpose()
    }

    /// Takes the writer of standard input, if the execution was started with [`Stdin::Piped`].
    pub fn take_stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// Sends a signal, 1 to 64, to the main process only. Does nothing if it has ended. Equal
    /// signals that are still pending are sent once, as the kernel does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for other numbers.
    pub async fn signal(&self, signal: u8) -> Result<()> {
        if !(1..=64).contains(&signal) {
            let context = format!("{signal} is not a signal number; they are 1 to 64");
            let error = Error::new(ErrorKind::InvalidRequest, "send signal", context);
            return Err(error.on(&self.tier));
        }
        self.control(ControlRequest::Signal(signal)).await;
        Ok(())
    }

    /// Kills all processes of the execution. Its outcome is [`crate::Outcome::Signaled`] by SIGKILL,
    /// unless it ended before. Does nothing if it has ended.
    pub async fn kill(&self) {
        self.control(ControlRequest::Kill).await;
    }

    async fn control(&self, request: ControlRequest) {
        // The channel is closed once the execution has ended.
        let _ = self.control.send(request).await;
    }

    /// Changes the size of the program's terminal. The foreground program gets SIGWINCH. Does
    /// nothing if the execution has ended.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] if the request had no [`ExecRequest::terminal`].
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        if !self.has_terminal {
            let context = "the execution has no terminal";
            let error = Error::new(ErrorKind::InvalidRequest, "resize terminal", context);
            return Err(error
                .on(&self.tier)
                .with_fix("request one with ExecRequest::terminal"));
        }
        self.control(ControlRequest::Resize(size)).await;
        Ok(())
    }

    /// Reads the remaining events and returns the result. Closes standard input first, unless its
    /// writer was taken.
    ///
    /// The result captures the output of the remaining events, up to the policy's limits. Output of
    /// earlier events counts only in [`crate::Captured::total`]. Dropping the future loses nothing:
    /// call it again.
    ///
    /// # Errors
    ///
    /// If the sandbox failed.
    pub async fn wait(&mut self) -> Result<ExecResult> {
        self.stdin = None;
        while let Some(event) = self.next_event().await? {
            let (stream, bytes) = match event {
                ExecEvent::Stdout(bytes) => (OutputStream::Stdout, bytes),
                ExecEvent::Stderr(bytes) => (OutputStream::Stderr, bytes),
                _ => continue,
            };
            let (stdout, stderr) = (self.plan.stdout_max, self.plan.stderr_max);
            let capture = self
                .capture
                .get_or_insert_with(|| Capture::new(stdout, stderr));
            // The sender of the events ends a program that writes far too much.
            let _ = capture.take(stream, &bytes);
        }
        self.take_in_capture();
        match &self.end {
            Some(Ok(result)) => Ok(result.clone()),
            Some(Err(error)) => Err(error.again()),
            None => unreachable!("the events end with the execution"),
        }
    }

    /// Moves the output that `wait` has read into the result.
    fn take_in_capture(&mut self) {
        let (Some(capture), Some(Ok(result))) = (self.capture.take(), &mut self.end) else {
            return;
        };
        for (stream, excess) in capture.excess() {
            // The reason for a kill is in the result already.
            if excess == Excess::Cut {
                let denial = denial::of_output(stream, excess, &self.plan);
                result.denials.push(denial.clone());
                self.log.push(denial);
            }
        }
        let (stdout, stderr) = capture.finish();
        result.stdout.bytes = stdout.bytes;
        result.stderr.bytes = stderr.bytes;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<ExecEvent>>> {
        if let Some(event) = self.known.pop_front() {
            return Poll::Ready(Some(Ok(event)));
        }
        if self.end.is_some() {
            return Poll::Ready(None);
        }
        if let Some(event) = ready!(self.events.poll_recv(context)) {
            return Poll::Ready(Some(Ok(event)));
        }
        let joined = ready!(Pin::new(&mut self.task).poll(context));
        let result = joined.unwrap_or_else(|error| {
            if let Ok(panic) = error.try_into_panic() {
                std::panic::resume_unwind(panic);
            }
            Err(ended(&self.tier, "the runtime was shut down"))
        });
        match result {
            Ok(result) => {
                let denied = result.denials.iter().cloned().map(ExecEvent::Denied);
                self.known.extend(denied);
                self.known
                    .push_back(ExecEvent::Exited(Box::new(result.clone())));
                self.end = Some(Ok(result));
                Poll::Ready(self.known.pop_front().map(Ok))
            }
            Err(error) => {
                self.end = Some(Err(error.again()));
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

impl Stream for Execution {
    type Item = Result<ExecEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        // The task holds the backend's future, whose drop kills.
        self.task.abort();
    }
}

fn ended(tier: &str, why: &str) -> Error {
    Error::new(ErrorKind::SandboxEnded, "execute", why).on(tier)
}

/// Does the work until the sandbox's handle is dropped.
async fn until_closed(
    tier: String,
    mut open: watch::Receiver<()>,
    work: impl Future<Output = Result<ExecResult>>,
) -> Result<ExecResult> {
    tokio::select! {
        biased;
        // Only closing changes the channel.
        _ = open.changed() => Err(ended(&tier, "the sandbox's handle was dropped")),
        result = work => result,
    }
}

/// The limits of an execution.
pub(crate) struct Bounds {
    pub(crate) timeout: Duration,
    pub(crate) capture: Capture,
}

async fn work(
    bounds: Bounds,
    running: Arc<Running>,
    request: ExecRequest,
    input: Input,
    mut forward: Forward,
) -> Result<ExecResult> {
    let Bounds { timeout, capture } = bounds;
    let result = running
        .run_within(timeout, &request, input, capture, Some(&mut forward))
        .await;
    if result.is_ok() {
        // The backend may not have reported the start of a program without output.
        forward.started().await;
    }
    result
}

/// Turns output into events.
struct Forward {
    events: mpsc::Sender<ExecEvent>,
    started: bool,
}

impl Forward {
    async fn event(&self, event: ExecEvent) -> Flow {
        match self.events.send(event).await {
            Ok(()) => Flow::Continue,
            // The execution was dropped, and its task ends soon.
            Err(_) => Flow::Stop,
        }
    }
}

#[async_trait]
impl OutputSink for Forward {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        self.started().await;
        for piece in bytes.chunks(PIECE) {
            let piece = Bytes::copy_from_slice(piece);
            let event = match stream {
                OutputStream::Stdout => ExecEvent::Stdout(piece),
                OutputStream::Stderr => ExecEvent::Stderr(piece),
            };
            if self.event(event).await == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    async fn started(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            // The execution may have been dropped.
            let _ = self.event(ExecEvent::Started).await;
        }
    }
}
