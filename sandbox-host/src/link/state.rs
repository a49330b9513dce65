//! The state shared by a link's stream and its task.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sandbox_agent::protocol::{LinkEnd, PACKET_HEADER, ProtocolError, Received};
use tokio::io::ReadBuf;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{Background, PendingTask, lock};

/// Counts links that are ending, for [`super::closed_clients_notified`]. Runs no tasks.
pub(super) static FAREWELLS: Background = Background::new("sandbox-links");

/// The most unacknowledged bytes before the writer must wait.
const MAX_UNACKNOWLEDGED: usize = 1024 * 1024;

/// The most unread bytes before the agent's stream is not read any more.
const MAX_UNREAD: usize = 256 * 1024;

/// Why a link has ended.
#[derive(Debug, Clone)]
pub(crate) enum LinkEnding {
    /// The agent announced the end.
    Closed,
    /// The agent broke the protocol.
    Violation(ProtocolError),
    /// The agent cannot be reached any more.
    Lost(String),
}

#[derive(Debug)]
struct LinkState {
    end: LinkEnd,
    /// Bytes that the agent has not acknowledged, in order.
    unacknowledged: VecDeque<u8>,
    /// Bytes that were received but not read.
    unread: VecDeque<u8>,
    ending: Option<LinkEnding>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Whether the stream was dropped on this side.
    dropped: bool,
    away_since: Option<Instant>,
    /// The duration of previous outages.
    away: Duration,
    /// Whether a task runs that will end the link.
    has_task: bool,
    /// Counts while the task tells the agent about the end.
    farewell: Option<PendingTask>,
}

/// The state shared by the stream and its task.
#[derive(Debug)]
pub(crate) struct LinkShared {
    state: Mutex<LinkState>,
    /// There may be something to send, or the stream was dropped.
    to_send: Notify,
    /// The stream was dropped.
    gone: Notify,
    /// There is space for received bytes.
    room: Notify,
    /// The current stream must be replaced.
    renewal: Notify,
}

impl LinkShared {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(LinkState {
                end: LinkEnd::new(),
                unacknowledged: VecDeque::new(),
                unread: VecDeque::new(),
                ending: None,
                reader: None,
                writer: None,
                dropped: false,
                away_since: None,
                away: Duration::ZERO,
                has_task: true,
                farewell: None,
            }),
            to_send: Notify::new(),
            gone: Notify::new(),
            room: Notify::new(),
            renewal: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        lock(&self.state)
    }

    /// The total time without a stream, including the current outage.
    pub(crate) fn time_away(&self) -> Duration {
        let state = self.state();
        let now = state.away_since.map_or(Duration::ZERO, |at| at.elapsed());
        state.away + now
    }

    /// Whether there is no stream now.
    pub(crate) fn is_away(&self) -> bool {
        self.state().away_since.is_some()
    }

    /// Replaces a stream that looks alive but transfers nothing.
    pub(crate) fn renew(&self) {
        self.renewal.notify_one();
    }

    pub(super) async fn renewal(&self) {
        self.renewal.notified().await;
    }

    /// Waits until the stream is dropped on this side.
    pub(super) async fn dropped(&self) {
        while !self.state().dropped {
            self.gone.notified().await;
        }
    }

    /// Records that the current stream broke.
    pub(super) fn disconnect(&self) {
        self.state().away_since.get_or_insert_with(Instant::now);
    }

    /// The number of bytes received.
    pub(super) fn received(&self) -> u64 {
        self.state().end.received()
    }

    /// Records a new stream, to an agent that has received this many bytes.
    pub(super) fn resume(&self, received: u64) -> Result<(), ProtocolError> {
        let mut state = self.state();
        let released = state.end.resume(received)?;
        state.release(released);
        if let Some(at) = state.away_since.take() {
            state.away += at.elapsed();
        }
        Ok(())
    }

    /// Records the end of the link.
    pub(super) fn end(&self, ending: LinkEnding) {
        let mut state = self.state();
        state.ending.get_or_insert(ending);
        if let Some(at) = state.away_since.take() {
            state.away += at.elapsed();
        }
        state.wake();
    }

    /// Replaces `bytes` by the next packet; `false` if none is due.
    pub(super) fn next_packet(&self, bytes: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        let unacknowledged = state.unacknowledged.len();
        let Some(packet) = state.end.next_packet(unacknowledged) else {
            return false;
        };
        let from = state.end.in_flight();
        bytes.clear();
        bytes.reserve(PACKET_HEADER + packet.length);
        bytes.extend_from_slice(&packet.header);
        let (front, back) = state.unacknowledged.as_slices();
        let cut = |slice: &[u8], offset: usize| {
            let start = from.saturating_sub(offset).min(slice.len());
            let end = (from + packet.length)
                .saturating_sub(offset)
                .min(slice.len());
            start..end
        };
        bytes.extend_from_slice(&front[cut(front, 0)]);
        bytes.extend_from_slice(&back[cut(back, front.len())]);
        state.end.sent(packet.length);
        true
    }

    /// The final packet.
    pub(super) fn last_packet(&self) -> [u8; PACKET_HEADER] {
        self.state().end.last_packet()
    }

    /// Waits until [`LinkShared::next_packet`] may have a packet; `false` if the stream was dropped.
    pub(super) async fn to_send(&self) -> bool {
        loop {
            {
                let state = self.state();
                if state.dropped || state.end.has_packet(state.unacknowledged.len()) {
                    return !state.dropped;
                }
            }
            self.to_send.notified().await;
        }
    }

    /// Waits for space for received bytes.
    pub(super) async fn room(&self) {
        while self.state().unread.len() >= MAX_UNREAD {
            self.room.notified().await;
        }
    }

    /// Processes bytes from the agent; returns whether they ended the link.
    pub(super) fn receive(&self, mut bytes: &[u8]) -> Result<bool, ProtocolError> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut closed = false;
        while let Some(received) = state.end.receive(&mut bytes)? {
            match received {
                Received::Data(data) => state.unread.extend(data),
                Received::Acknowledged(count) => state.release(count),
                Received::Close => closed = true,
            }
        }
        if !state.unread.is_empty()
            && let Some(reader) = state.reader.take()
        {
            reader.wake();
        }
        let due = state.end.has_packet(state.unacknowledged.len());
        drop(guard);
        if due {
            self.to_send.notify_one();
        }
        Ok(closed)
    }

    /// Announces that this side drops the stream: [`super::closed_clients_notified`] then waits until the agent
    /// knows.
    pub(crate) fn announce_drop(&self) {
        let mut state = self.state();
        if state.has_task {
            state.farewell.get_or_insert_with(|| FAREWELLS.hold());
        }
    }

    /// Records that the link's task has ended.
    pub(super) fn task_ended(&self) {
        let mut state = self.state();
        state.has_task = false;
        state.farewell = None;
    }

    pub(super) fn drop_stream(&self) {
        self.announce_drop();
        self.state().dropped = true;
        self.to_send.notify_one();
        self.gone.notify_one();
    }

    pub(super) fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if !state.unread.is_empty() {
            let (front, _) = state.unread.as_slices();
            let count = front.len().min(buffer.remaining());
            buffer.put_slice(&front[..count]);
            let was_full = state.unread.len() >= MAX_UNREAD;
            state.unread.drain(..count);
            if was_full && state.unread.len() < MAX_UNREAD {
                self.room.notify_one();
            }
            return Poll::Ready(Ok(()));
        }
        match &state.ending {
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
            Some(ending) => Poll::Ready(ending.as_end()),
        }
    }

    pub(super) fn poll_write(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if let Some(ending) = &state.ending {
            let ended = ending.as_end().err();
            return Poll::Ready(Err(ended.unwrap_or(io::ErrorKind::BrokenPipe.into())));
        }
        let room = MAX_UNACKNOWLEDGED.saturating_sub(state.unacknowledged.len());
        if room == 0 {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = room.min(bytes.len());
        state.unacknowledged.extend(&bytes[..count]);
        drop(state);
        self.to_send.notify_one();
        Poll::Ready(Ok(count))
    }
}

impl LinkState {
    fn release(&mut self, count: usize) {
        // Unacknowledged bytes are all still kept, and no more can be acknowledged.
        self.unacknowledged.drain(..count);
        if count > 0
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
    }

    fn wake(&mut self) {
        let wakers = [self.reader.take(), self.writer.take()];
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl LinkEnding {
    /// The result that a reader gets.
    fn as_end(&self) -> io::Result<()> {
        match self {
            Self::Closed => Ok(()),
            Self::Violation(error) => Err(io::Error::new(io::ErrorKind::InvalidData, *error)),
            Self::Lost(reason) => Err(io::Error::new(io::ErrorKind::NotConnected, reason.clone())),
        }
    }
}
