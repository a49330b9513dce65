//! Received data and credit of one TCP connection. The granted credit bounds it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sandbox_agent::protocol::{
    CONNECTION_WINDOW, Channel, ClosedReport, Frame, FrameKind, ProtocolError,
};

use crate::clock::Clock;
use crate::lock;
use crate::window::Window;

/// The connections' states, by stream.
pub(crate) type TcpStates = HashMap<u32, Arc<TcpState>>;

/// What a frame of the agent means for the connection to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// The stream stays open.
    Open,
    /// It was the stream's last frame.
    Last,
}

/// How the stream ended.
#[derive(Debug, Clone)]
enum TcpEnd {
    /// The agent closed it, with an error number, or 0.
    Closed(i32),
    /// The connection to the agent ended first.
    Lost(String),
}

#[derive(Debug)]
struct Inner {
    received: VecDeque<u8>,
    window: Window,
    /// Whether the sandbox's direction has ended.
    receiving_ended: bool,
    /// Bytes that the host may still send.
    credit: u64,
    /// Whether the host's direction has ended.
    sending_ended: bool,
    end: Option<TcpEnd>,
    /// Whether nobody reads any more.
    abandoned: bool,
    clock: Clock,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The state of one connection, between the agent's reader and the stream's user.
#[derive(Debug)]
pub(crate) struct TcpState(Mutex<Inner>);

impl TcpState {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner {
            received: VecDeque::new(),
            window: Window::with_size(CONNECTION_WINDOW),
            receiving_ended: false,
            credit: u64::from(CONNECTION_WINDOW),
            sending_ended: false,
            end: None,
            abandoned: false,
            clock: Clock::start(None),
            reader: None,
            writer: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }

    /// Handles a frame of the agent.
    pub(crate) fn accept(&self, frame: Frame<'_>) -> Result<Accepted, ProtocolError> {
        if frame.header.more {
            return Err(ProtocolError::BadValue("flags of a connection's frame"));
        }
        let mut inner = self.lock();
        match frame.header.kind {
            FrameKind::Stdout if !inner.receiving_ended => {
                inner.window.receive(frame.payload.len() as u64)?;
                if !inner.abandoned {
                    inner.received.extend(frame.payload);
                }
            }
            FrameKind::StdoutEnd if !inner.receiving_ended => {
                if !frame.payload.is_empty() {
                    return Err(ProtocolError::TrailingBytes);
                }
                inner.receiving_ended = true;
            }
            FrameKind::Stdout | FrameKind::StdoutEnd => {
                return Err(ProtocolError::Unexpected("bytes after their end"));
            }
            FrameKind::Credit => match Channel::read_credit(frame.payload)? {
                (Channel::Stdin, bytes) => {
                    let credit = inner.credit + u64::from(bytes);
                    if credit > u64::from(CONNECTION_WINDOW) {
                        return Err(ProtocolError::BadValue("credit"));
                    }
                    inner.credit = credit;
                }
                _ => return Err(ProtocolError::BadValue("channel of a credit")),
            },
            FrameKind::Closed => {
                let report = ClosedReport::decode(frame.payload)?;
                inner.finish(TcpEnd::Closed(report.errno));
                return Ok(Accepted::Last);
            }
            _ => return Err(ProtocolError::Unexpected("frame of a connection")),
        }
        inner.wake();
        Ok(Accepted::Open)
    }

    /// The connection to the agent has ended.
    pub(crate) fn lose(&self, reason: &str) {
        self.lock().finish(TcpEnd::Lost(reason.to_owned()));
    }

    /// Whether the agent has used up its time to close a connection that was reset.
    pub(crate) fn is_overdue(&self) -> bool {
        let inner = self.lock();
        inner.end.is_none() && inner.clock.is_over()
    }

    /// Excludes time in which this process was paused.
    pub(crate) fn exclude(&self, time: Duration) {
        self.lock().clock.exclude(time);
    }

    /// Copies received bytes into `buffer`. Returns how many, and the credit to grant for them;
    /// no bytes at the end.
    pub(super) fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Option<u32>)>> {
        let mut inner = self.lock();
        if inner.received.is_empty() {
            if inner.receiving_ended {
                return Poll::Ready(Ok((0, None)));
            }
            if let Some(end) = &inner.end {
                return Poll::Ready(Err(end.error()));
            }
            inner.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (head, tail) = inner.received.as_slices();
        let first = head.len().min(buffer.len());
        buffer[..first].copy_from_slice(&head[..first]);
        let second = tail.len().min(buffer.len() - first);
        buffer[first..first + second].copy_from_slice(&tail[..second]);
        let count = first + second;
        inner.received.drain(..count);
        if inner.received.is_empty() && inner.received.capacity() > MAX_IDLE_CAPACITY {
            inner.received = VecDeque::new();
        }
        let granted = inner.window.take(count as u64);
        let open = !inner.receiving_ended && inner.end.is_none();
        Poll::Ready(Ok((count, granted.filter(|_| open))))
    }

    /// Takes credit for at most `wanted` bytes.
    pub(super) fn poll_credit(
        &self,
        context: &mut Context<'_>,
        wanted: usize,
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.lock();
        if let Some(end) = &inner.end {
            return Poll::Ready(Err(end.error()));
        }
        if inner.sending_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if inner.credit == 0 {
            inner.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = wanted.min(usize::try_from(inner.credit).unwrap_or(usize::MAX));
        inner.credit -= count as u64;
        Poll::Ready(Ok(count))
    }

    /// Ends the host's direction. Returns whether a frame has to say so.
    pub(super) fn end_sending(&self) -> bool {
        let mut inner = self.lock();
        let first = !std::mem::replace(&mut inner.sending_ended, true);
        first && inner.end.is_none()
    }

    /// The stream has no user any more. Returns whether it has to be reset.
    pub(super) fn abandon(&self) -> bool {
        let mut inner = self.lock();
        inner.abandoned = true;
        inner.received = VecDeque::new();
        let reset = inner.end.is_none() && !(inner.sending_ended && inner.receiving_ended);
        if reset {
            inner.clock.expect_end();
        }
        reset
    }
}

/// The most memory that an idle connection keeps, in bytes.
const MAX_IDLE_CAPACITY: usize = 16 * 1024;

impl Inner {
    /// Ends the stream. Only the first end counts.
    fn finish(&mut self, end: TcpEnd) {
        self.end.get_or_insert(end);
        self.wake();
    }

    fn wake(&mut self) {
        let waiting = [self.reader.take(), self.writer.take()];
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

impl TcpEnd {
    fn error(&self) -> io::Error {
        match self {
            // An agent that says so without having ended both directions has cut the data.
            Self::Closed(0) => io::ErrorKind::ConnectionAborted.into(),
            Self::Closed(errno) => io::Error::from_raw_os_error(*errno),
            Self::Lost(reason) => io::Error::new(io::ErrorKind::ConnectionAborted, reason.clone()),
        }
    }
}
