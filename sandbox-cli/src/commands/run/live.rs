//! The program's output, passed on as it comes.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use async_trait::async_trait;
use sandbox::{ByteSize, ExecRequest, ExecResult, Flow, OutputSink, OutputStream, SandboxHandle};
use tokio::sync::{mpsc, oneshot};

use super::events::{EventEncoder, StartedEvent};
use super::stdin::StdinChoice;
use super::terminal;
use crate::command_error::CommandError;
use crate::output::{LiveFormat, print_json};

/// How many chunks of output (of at most 64 KiB each) wait for a slow reader before the program has
/// to.
const CHUNKS: usize = 8;

/// The pause before the next attempt to write to a non-blocking output whose reader is slow.
const BUSY: Duration = Duration::from_millis(1);

type OutputChunk = (OutputStream, Vec<u8>);

/// Passes output on, each stream up to its cap. A separate thread writes, because a stalled reader
/// must not stall signals, time limits and the connection to the sandbox. One thread writes both
/// streams, which keeps their order.
#[derive(Debug)]
pub struct LiveOutput {
    /// How many bytes of each stream may still be written.
    remaining: [u64; 2],
    written: WrittenOutput,
    writer: Option<WriterThread>,
    /// Set if the output is written as events.
    events: Option<EventEncoder>,
    /// Why writing failed.
    error: Option<CommandError>,
}

#[derive(Debug)]
struct WriterThread {
    chunks: mpsc::Sender<OutputChunk>,
    done: oneshot::Receiver<io::Result<()>>,
}

/// The output that was written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WrittenOutput {
    /// The reader is gone.
    pub is_broken: bool,
    /// The last byte of standard output and of standard error.
    pub last: [Option<u8>; 2],
}

impl LiveOutput {
    /// Passes on this much of each stream.
    pub fn new(stdout: ByteSize, stderr: ByteSize) -> Self {
        Self {
            remaining: [stdout.as_u64(), stderr.as_u64()],
            written: WrittenOutput::default(),
            writer: None,
            events: None,
            error: None,
        }
    }

    /// Waits until everything so far is written. [`LiveOutput::finish`] reports errors.
    pub async fn flush(&mut self) {
        let Some(WriterThread { chunks, done }) = self.writer.take() else {
            return;
        };
        drop(chunks);
        let failed = |error: &io::Error| CommandError::io("writing the program's output", error);
        match done.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.written.is_broken = true;
            }
            Ok(Err(error)) => self.error = Some(failed(&error)),
            Err(_) => self.error = Some(failed(&io::Error::other("the writer vanished"))),
        }
    }

    /// The output of a program in this sandbox, in a format; `None` if it is not passed on. A
    /// stream of events begins now.
    pub fn of(format: LiveFormat, sandbox: &SandboxHandle) -> Result<Option<Self>, CommandError> {
        let plan = sandbox.plan();
        let mut live = Self::new(plan.stdout_max, plan.stderr_max);
        match format {
            LiveFormat::Json => return Ok(None),
            LiveFormat::Text => {}
            LiveFormat::Jsonl => {
                print_json(&StartedEvent::new(sandbox))?;
                live.events = Some(EventEncoder::default());
            }
        }
        Ok(Some(live))
    }

    /// Waits until everything is written.
    pub async fn finish(mut self) -> Result<WrittenOutput, CommandError> {
        let rest = self.events.as_mut().map(EventEncoder::finish);
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            let writer = self.writer.get_or_insert_with(start);
            // If the writer has failed, its report says why.
            let _ = writer.chunks.send((OutputStream::Stdout, rest)).await;
        }
        self.flush().await;
        self.error.map_or(Ok(self.written), Err)
    }
}

#[async_trait]
impl OutputSink for LiveOutput {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        let index = stream as usize;
        let length = usize::try_from(self.remaining[index])
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        self.remaining[index] -= length as u64;
        let Some(last) = bytes[..length].last() else {
            return Flow::Continue;
        };
        self.written.last[index] = Some(*last);
        let bytes = &bytes[..length];
        let chunk = match &mut self.events {
            None => (stream, bytes.to_vec()),
            Some(events) => (OutputStream::Stdout, events.encode(stream, bytes)),
        };
        let writer = self.writer.get_or_insert_with(start);
        match writer.chunks.send(chunk).await {
            Ok(()) => Flow::Continue,
            // The writer has ended: its result says why.
            Err(_) => Flow::Stop,
        }
    }
}

/// Runs a program, and passes its output on if `live` is set.
pub async fn exec_live(
    sandbox: &SandboxHandle,
    request: &ExecRequest,
    stdin: StdinChoice,
    live: Option<&mut LiveOutput>,
) -> sandbox::Result<ExecResult> {
    match live {
        Some(live) if request.terminal.is_some() => {
            terminal::exec(sandbox, request, stdin, live).await
        }
        Some(live) => sandbox.exec_to(request, stdin.open(), live).await,
        None => sandbox.exec_with(request, stdin.open(), |_, _| {}).await,
    }
}

fn start() -> WriterThread {
    let (chunks, mut receiver) = mpsc::channel::<OutputChunk>(CHUNKS);
    let (report, done) = oneshot::channel();
    let write = move || {
        // The receiver is gone if the command was interrupted.
        let _ = report.send(write_all(&mut receiver));
    };
    if let Err(error) = std::thread::Builder::new()
        .name("output".into())
        .spawn(write)
    {
        // The closure and its end of `done` are gone; `finish` reports that the writer vanished.
        crate::print_status(format_args!(
            "warning: no thread for the program's output: {error}"
        ));
    }
    WriterThread { chunks, done }
}

fn write_all(chunks: &mut mpsc::Receiver<OutputChunk>) -> io::Result<()> {
    // The descriptors themselves: std's own stdout would copy, and search for line ends.
    let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    while let Some((stream, bytes)) = chunks.blocking_recv() {
        match stream {
            OutputStream::Stdout => write_patiently(&mut stdout, &bytes)?,
            OutputStream::Stderr => write_patiently(&mut stderr, &bytes)?,
        }
    }
    Ok(())
}

/// As `Write::write_all`, even if another process has made the shared descriptor non-blocking.
fn write_patiently(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(BUSY),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
