//! One stream of a connection, from this side.

use std::sync::Arc;

use sandbox_agent::protocol::{Channel, Kind, encode_frame};
use tokio::sync::mpsc;

use crate::inbox::Inbox;

/// A stream that was opened and has not ended. Dropping it kills the execution.
#[derive(Debug)]
pub(crate) struct OpenStream {
    id: u32,
    pub(crate) inbox: Arc<Inbox>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    done: bool,
}

impl OpenStream {
    pub(crate) fn new(
        id: u32,
        inbox: Arc<Inbox>,
        outgoing: mpsc::UnboundedSender<Vec<u8>>,
    ) -> Self {
        Self {
            id,
            inbox,
            outgoing,
            done: false,
        }
    }

    /// Sends frames of this stream.
    pub(crate) fn send(&self, bytes: Vec<u8>) {
        // A closed queue means that the connection has ended; the inbox says so.
        let _ = self.outgoing.send(bytes);
    }

    /// Sends one frame. An order to kill must be answered in time.
    pub(crate) fn frame(&self, kind: Kind, payload: &[u8]) {
        if kind == Kind::Kill {
            self.inbox.expect_end();
        }
        let mut bytes = Vec::with_capacity(payload.len() + 8);
        encode_frame(&mut bytes, self.id, kind, false, payload);
        self.send(bytes);
    }

    /// Notes that output was taken, and grants the agent more in turn.
    pub(crate) fn grant(&self, channel: Channel, bytes: usize) {
        if let Some(granted) = self.inbox.grant(channel, bytes as u64) {
            self.frame(Kind::Credit, &channel.credit(granted));
        }
    }

    /// The last frame was read: nothing is left to kill.
    pub(crate) fn finish(mut self) {
        self.done = true;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if !self.done {
            self.frame(Kind::Kill, b"");
            for (channel, granted) in self.inbox.abandon() {
                if granted > 0 {
                    self.frame(Kind::Credit, &channel.credit(granted));
                }
            }
        }
    }
}
