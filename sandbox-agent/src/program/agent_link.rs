//! The agent's end of a link, which survives broken streams.

use alloc::vec::Vec;

use crate::runtime::{
    Errno, RawFd,
    io::{self, IoSlice},
};

use super::{
    outgoing_frames::OutgoingFrames,
    poll_set::{MonotonicMicros, now},
};
use crate::protocol::{
    ClientKey, FrameBuffer, FrameKind, LinkEnd, ProtocolError, Received, Resumed, encode_frame,
};

/// A link. Its output stays in the [`OutgoingFrames`] until the client acknowledges it.
#[derive(Debug)]
pub(super) struct AgentLink {
    secret: ClientKey,
    end: LinkEnd,
    /// What to write before the payload: a packet header, or the answer to a client that
    /// reconnected.
    head: Vec<u8>,
    head_start: usize,
    /// How many bytes of the current packet's payload are not yet written.
    payload: usize,
    disconnected_since: Option<MonotonicMicros>,
    /// The close packet follows when all output is written.
    ending: bool,
    /// The client has sent the close packet.
    closed: bool,
}

impl AgentLink {
    /// A link in the state `end`.
    pub(super) fn new(secret: ClientKey, end: LinkEnd) -> Self {
        let mut link = Self {
            secret,
            end,
            head: Vec::new(),
            head_start: 0,
            payload: 0,
            disconnected_since: None,
            ending: false,
            closed: false,
        };
        link.begin_with_resumed(0);
        link
    }

    /// Starts a stream with the `Resumed` frame.
    fn begin_with_resumed(&mut self, received: u64) {
        self.head.clear();
        self.head_start = 0;
        let resumed = Resumed { received };
        encode_frame(
            &mut self.head,
            0,
            FrameKind::Resumed,
            false,
            &resumed.encode(),
        );
    }

    /// Whether this is its secret.
    pub(super) fn has_secret(&self, secret: &ClientKey) -> bool {
        self.secret == *secret
    }

    /// When its stream was lost.
    pub(super) fn disconnected_since(&self) -> Option<MonotonicMicros> {
        self.disconnected_since
    }

    /// Notes that the stream is lost.
    pub(super) fn lose_stream(&mut self) {
        self.disconnected_since.get_or_insert_with(now);
    }

    /// Whether the client has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends the close packet once all output is written.
    pub(super) fn end(&mut self) {
        self.ending = true;
    }

    /// Handles bytes from its stream.
    ///
    /// # Errors
    ///
    /// When the client violates the protocol.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        incoming: &mut FrameBuffer,
        outgoing: &mut OutgoingFrames,
    ) -> Result<(), ProtocolError> {
        while let Some(received) = self.end.receive(&mut bytes)? {
            match received {
                Received::Data(data) => incoming.extend(data),
                Received::Acknowledged(count) => outgoing.release(count),
                Received::Close => self.closed = true,
            }
        }
        Ok(())
    }

    /// Resumes over a new stream, for a client that has received this many bytes.
    ///
    /// # Errors
    ///
    /// When the client cannot have received that many.
    pub(super) fn resume(
        &mut self,
        received: u64,
        outgoing: &mut OutgoingFrames,
    ) -> Result<(), ProtocolError> {
        outgoing.release(self.end.resume(received)?);
        self.begin_with_resumed(self.end.received());
        self.payload = 0;
        self.disconnected_since = None;
        Ok(())
    }

    /// Whether [`AgentLink::write`] has something to write.
    pub(super) fn has_to_write(&self, outgoing: &OutgoingFrames) -> bool {
        let queued = outgoing.len();
        self.has_partial_packet() || self.close_is_next(queued) || self.end.has_packet(queued)
    }

    /// Whether the close packet is next: output that did not fit into the window is sent first.
    fn close_is_next(&self, queued: usize) -> bool {
        self.ending && self.end.in_flight() == queued
    }

    /// Whether a packet is written in part, or ready to be written.
    fn has_partial_packet(&self) -> bool {
        self.head_start < self.head.len() || self.payload > 0
    }

    /// Writes what the stream accepts without blocking.
    ///
    /// # Errors
    ///
    /// What `writev` reports: the stream is broken.
    pub(super) fn write(&mut self, outgoing: &OutgoingFrames, stream: RawFd) -> Result<(), Errno> {
        loop {
            if !self.has_partial_packet() && !self.next_packet(outgoing.len()) {
                return Ok(());
            }
            let in_flight = self.end.in_flight();
            let head = &self.head[self.head_start..];
            let payload = &outgoing.unacknowledged()[in_flight..in_flight + self.payload];
            let written =
                match io::write_vectored(stream, &[IoSlice::new(head), IoSlice::new(payload)]) {
                    Ok(written) => written,
                    Err(Errno::EAGAIN) => return Ok(()),
                    Err(errno) => return Err(errno),
                };
            let head_written = written.min(head.len());
            self.head_start += head_written;
            self.payload -= written - head_written;
            self.end.sent(written - head_written);
        }
    }

    fn next_packet(&mut self, queued: usize) -> bool {
        if let Some(packet) = self.end.next_packet(queued) {
            self.set_head(&packet.header);
            self.payload = packet.length;
            return true;
        }
        if self.close_is_next(queued) {
            self.ending = false;
            let last = self.end.last_packet();
            self.set_head(&last);
            return true;
        }
        false
    }

    fn set_head(&mut self, head: &[u8]) {
        self.head.clear();
        self.head.extend_from_slice(head);
        self.head_start = 0;
    }
}
