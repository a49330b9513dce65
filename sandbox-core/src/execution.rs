//! An execution as its caller holds it: a stream of events, standard input, orders, and the end.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::capture::{Capture, Excess};
use crate::denial::{self, DenialLog};
use crate::input::{Input, Order, Orders};
use crate::running::Running;
use crate::spi::{Flow, OutputSink, OutputStream};
use crate::{
    Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Plan, Result, Stdin, StdinWriter,
};

/// How many events wait for the caller before the program has to.
const WAITING: usize = 8;

/// The largest piece of output in one event.
const PIECE: usize = 64 * 1024;

/// An execution that goes on by itself.
///
/// Its events come by [`Execution::next`], or as a [`Stream`]. What nobody takes waits, and then the program waits: at most 1 MiB
/// is held here. Its time limit goes on meanwhile. [`Execution::wait`] takes the rest and gives the result, at any time and
/// as often as it is asked: nothing that the caller does or does not read loses it.
///
/// Dropping it kills the whole tree of the execution; so does dropping its [`crate::SandboxHandle`].
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
/// while let Some(event) = execution.next().await? {
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
    // Not the sandbox itself: that goes with its handle.
    tier: String,
    plan: Arc<Plan>,
    log: DenialLog,
    task: JoinHandle<Result<ExecResult>>,
    events: mpsc::Receiver<ExecEvent>,
    orders: mpsc::Sender<Order>,
    stdin: Option<StdinWriter>,
    /// Events that are known and were not given yet.
    known: VecDeque<ExecEvent>,
    /// What [`Execution::wait`] has read so far.
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
    /// Starts one, and waits until its program runs. `open` closes with the sandbox's handle.
    pub(crate) async fn start(
        running: Arc<Running>,
        open: watch::Receiver<()>,
        request: &ExecRequest,
        stdin: Stdin,
    ) -> Result<Self> {
        request.validate()?;
        let (source, stdin) = stdin.open();
        let (give_order, orders) = Orders::channel();
        let (give_event, events) = mpsc::channel(WAITING);
        let work = work(
            Arc::clone(&running),
            request.clone(),
            Input::new(source, orders),
            Forward {
                events: give_event,
                started: false,
            },
        );
        let mut execution = Self {
            tier: running.tier.clone(),
            plan: Arc::clone(&running.plan),
            log: running.denials.clone(),
            task: tokio::spawn(until_closed(running.tier.clone(), open, work)),
            events,
            orders: give_order,
            stdin,
            known: VecDeque::new(),
            capture: None,
            end: None,
        };
        match execution.next().await? {
            Some(event) => execution.known.push_front(event),
            None => unreachable!("the first event of an execution is its start or its error"),
        }
        Ok(execution)
    }

    /// The next event; `None` after [`ExecEvent::Exited`]. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the sandbox failed. It is the last thing that comes.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>> {
        let event = std::future::poll_fn(|context| self.poll(context)).await;
        event.transpose()
    }

    /// Takes what writes to standard input, where the execution was started with [`Stdin::Piped`].
    pub fn take_stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// Sends a signal, 1 to 64, to the main process alone. Harmless when it has ended. Of equal signals that the sandbox has yet to take,
    /// one is sent, as the kernel does with those that a process has yet to take.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for other numbers.
    pub async fn signal(&self, signal: u8) -> Result<()> {
        if !(1..=64).contains(&signal) {
            let context = format!("{signal} is no signal: they are 1 to 64");
            let error = Error::new(ErrorKind::InvalidRequest, "send signal", context);
            return Err(error.on(&self.tier));
        }
        self.order(Order::Signal(signal)).await;
        Ok(())
    }

    /// Kills the whole tree. The end still comes, as [`crate::Outcome::Signaled`] by SIGKILL where nothing was faster. Harmless when
    /// it has ended.
    pub async fn kill(&self) {
        self.order(Order::Kill).await;
    }

    async fn order(&self, order: Order) {
        // Nobody takes orders any more once the execution has ended.
        let _ = self.orders.send(order).await;
    }

    /// Takes every event that is left, and gives the result. A standard input that was not taken is closed first.
    ///
    /// The output that had not been taken by then is in the result, up to the policy's caps; what had been taken counts in
    /// [`crate::Captured::total`] only. Nothing is lost when the future is dropped: ask again.
    ///
    /// # Errors
    ///
    /// When the sandbox failed.
    pub async fn wait(&mut self) -> Result<ExecResult> {
        self.stdin = None;
        while let Some(event) = self.next().await? {
            let (stream, bytes) = match event {
                ExecEvent::Stdout(bytes) => (OutputStream::Stdout, bytes),
                ExecEvent::Stderr(bytes) => (OutputStream::Stderr, bytes),
                _ => continue,
            };
            let (stdout, stderr) = (self.plan.stdout_max, self.plan.stderr_max);
            let capture = self
                .capture
                .get_or_insert_with(|| Capture::new(stdout, stderr));
            // Who writes far too much is ended where the output comes from.
            let _ = capture.take(stream, &bytes);
        }
        self.take_in_capture();
        match &self.end {
            Some(Ok(result)) => Ok(result.clone()),
            Some(Err(error)) => Err(error.again()),
            None => unreachable!("the events end with the execution"),
        }
    }

    /// Once: what was read by waiting goes into the result.
    fn take_in_capture(&mut self) {
        let (Some(capture), Some(Ok(result))) = (self.capture.take(), &mut self.end) else {
            return;
        };
        for (stream, excess) in capture.excess() {
            // What the program was killed for is known already.
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

/// Does the work, but no longer than the sandbox's handle is there.
async fn until_closed(
    tier: String,
    mut open: watch::Receiver<()>,
    work: impl Future<Output = Result<ExecResult>>,
) -> Result<ExecResult> {
    tokio::select! {
        biased;
        // Nothing is ever sent.
        _ = open.changed() => Err(ended(&tier, "the sandbox's handle was dropped")),
        result = work => result,
    }
}

async fn work(
    running: Arc<Running>,
    request: ExecRequest,
    input: Input,
    mut forward: Forward,
) -> Result<ExecResult> {
    let capture = Capture::counting(running.plan.stdout_max, running.plan.stderr_max);
    let result = running
        .run(&request, input, capture, Some(&mut forward))
        .await;
    if result.is_ok() {
        // A backend that does not tell, and a program that wrote nothing.
        forward.started().await;
    }
    result
}

/// Makes events of output.
struct Forward {
    events: mpsc::Sender<ExecEvent>,
    started: bool,
}

impl Forward {
    async fn event(&self, event: ExecEvent) -> Flow {
        match self.events.send(event).await {
            Ok(()) => Flow::Continue,
            // The execution was dropped, and its task is about to be.
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
            // As with output: a dropped execution needs no word.
            let _ = self.event(ExecEvent::Started).await;
        }
    }
}
