//! One stream of a connection, from this side.

use std::sync::Arc;

use sandbox_agent::protocol::{Channel, FrameKind, TerminalSize, encode_frame};

use crate::inbox::Inbox;
use crate::outgoing::{FrameQueue, QueuedSignals};

/// A stream that has not ended. Dropping it kills the execution.
#[derive(Debug)]
pub(crate) struct OpenStream {
    id: u32,
    pub(crate) inbox: Arc<Inbox>,
    outgoing: FrameQueue,
    signals: QueuedSignals,
    /// A size of the terminal that waits to be sent. It is one kind of signal, so at most one waits.
    queued_resize: QueuedSignals,
    done: bool,
}

impl OpenStream {
    pub(crate) fn new(id: u32, inbox: Arc<Inbox>, outgoing: FrameQueue) -> Self {
        Self {
            id,
            inbox,
            outgoing,
            signals: QueuedSignals::default(),
            queued_resize: QueuedSignals::default(),
            done: false,
        }
    }

    /// Queues frames of this stream.
    pub(crate) fn send(&self, bytes: Vec<u8>) {
        // A closed queue means that the connection has ended; the inbox reports it.
        let _ = self.outgoing.send(bytes.into());
    }

    /// Queues one frame. After a kill frame, the agent must end the stream in time.
    pub(crate) fn frame(&self, kind: FrameKind, payload: &[u8]) {
        if kind == FrameKind::Kill {
            self.inbox.expect_end();
        }
        let mut bytes = Vec::with_capacity(payload.len() + 8);
        encode_frame(&mut bytes, self.id, kind, false, payload);
        self.send(bytes);
    }

    /// Queues a signal, unless the same signal is still queued.
    pub(crate) fn signal(&self, number: u8) {
        let mut bytes = Vec::new();
        let payload = u32::from(number).to_le_bytes();
        encode_frame(&mut bytes, self.id, FrameKind::Signal, false, &payload);
        match self.signals.frame(number, bytes) {
            // As in `send`.
            Some(frame) => drop(self.outgoing.send(frame)),
            None => tracing::debug!(number, "the agent has yet to take an equal signal"),
        }
    }

    /// Queues a new size of the terminal; false if an earlier one is still queued.
    pub(crate) fn resize(&self, size: sandbox_core::TerminalSize) -> bool {
        let size = TerminalSize {
            rows: size.rows,
            columns: size.columns,
        };
        let mut bytes = Vec::new();
        encode_frame(
            &mut bytes,
            self.id,
            FrameKind::Resize,
            false,
            &size.encode(),
        );
        match self.queued_resize.frame(1, bytes) {
            Some(frame) => {
                // As in `send`.
                drop(self.outgoing.send(frame));
                true
            }
            None => false,
        }
    }

    /// Records consumed output, and grants credit for it.
    pub(crate) fn grant(&self, channel: Channel, bytes: usize) {
        if let Some(granted) = self.inbox.grant(channel, bytes as u64) {
            self.frame(FrameKind::Credit, &channel.credit(granted));
        }
    }

    /// Marks the stream as ended, so that the drop kills nothing.
    pub(crate) fn finish(mut self) {
        self.done = true;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if !self.done {
            self.frame(FrameKind::Kill, b"");
            for (channel, granted) in self.inbox.abandon() {
                if granted > 0 {
                    self.frame(FrameKind::Credit, &channel.credit(granted));
                }
            }
        }
    }
}
