//! The program's output, passed on as it comes.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use async_trait::async_trait;
use sandbox::ByteSize;
use sandbox::spi::{Flow, OutputSink, OutputStream};
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;

/// How many pieces of output (of at most 64 KiB each) wait for a slow reader before the program has to.
const PIECES: usize = 8;

/// How long a reader that takes nothing at the moment is left alone, where the output does not block by itself.
const BUSY: Duration = Duration::from_millis(1);

type Piece = (OutputStream, Vec<u8>);

/// Passes output on, each stream up to its cap. A thread does the writing: a reader that stalls must not stall signals, time
/// limits and the connection to the sandbox. One thread for both streams, so that they keep their order.
#[derive(Debug)]
pub struct Live {
    left: [u64; 2],
    written: Written,
    writer: Option<Writer>,
}

#[derive(Debug)]
struct Writer {
    pieces: mpsc::Sender<Piece>,
    done: oneshot::Receiver<io::Result<()>>,
}

/// What was passed on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Nobody reads it any more.
    pub is_broken: bool,
    /// The last byte of standard output and of standard error.
    pub last: [Option<u8>; 2],
}

impl Live {
    /// Passes on this much of each stream.
    pub fn new(stdout: ByteSize, stderr: ByteSize) -> Self {
        Self {
            left: [stdout.as_u64(), stderr.as_u64()],
            written: Written::default(),
            writer: None,
        }
    }

    /// Waits until everything is written.
    pub async fn finish(self) -> Result<Written, Failure> {
        let mut written = self.written;
        let Some(Writer { pieces, done }) = self.writer else {
            return Ok(written);
        };
        drop(pieces);
        match done.await {
            Ok(Ok(())) => Ok(written),
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                written.is_broken = true;
                Ok(written)
            }
            Ok(Err(error)) => Err(Failure::io("writing the program's output", &error)),
            Err(_) => Err(Failure::io(
                "writing the program's output",
                &io::Error::other("the writer vanished"),
            )),
        }
    }
}

#[async_trait]
impl OutputSink for Live {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        let index = stream as usize;
        let length = usize::try_from(self.left[index])
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        self.left[index] -= length as u64;
        let Some(last) = bytes[..length].last() else {
            return Flow::Continue;
        };
        self.written.last[index] = Some(*last);
        let writer = self.writer.get_or_insert_with(start);
        match writer.pieces.send((stream, bytes[..length].to_vec())).await {
            Ok(()) => Flow::Continue,
            // The writer has ended: its result says why.
            Err(_) => Flow::Stop,
        }
    }
}

fn start() -> Writer {
    let (pieces, mut receiver) = mpsc::channel::<Piece>(PIECES);
    let (tell, done) = oneshot::channel();
    let write = move || {
        // Nobody listens any more where the command was interrupted.
        let _ = tell.send(write_all(&mut receiver));
    };
    if let Err(error) = std::thread::Builder::new()
        .name("output".into())
        .spawn(write)
    {
        // The closure and its end of `done` are gone; `finish` reports that the writer vanished.
        crate::say(format_args!(
            "warning: no thread for the program's output: {error}"
        ));
    }
    Writer { pieces, done }
}

fn write_all(pieces: &mut mpsc::Receiver<Piece>) -> io::Result<()> {
    // The descriptors themselves: std's own stdout would copy, and search for line ends.
    let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    while let Some((stream, bytes)) = pieces.blocking_recv() {
        match stream {
            OutputStream::Stdout => write_patiently(&mut stdout, &bytes)?,
            OutputStream::Stderr => write_patiently(&mut stderr, &bytes)?,
        }
    }
    Ok(())
}

/// As `write_all`, also where whoever shares the descriptor has made it non-blocking.
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
