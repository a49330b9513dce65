//! The agent's side of a link: a stream that breaks is waited for, and goes on where it was.

use alloc::vec::Vec;

use crate::runtime::{
    Errno, RawFd, Result,
    io::{self, IoSlice},
};

use super::{
    outgoing::Outgoing,
    polling::{Moment, now},
};
use crate::protocol::{
    FrameBuffer, Key, Kind, LinkEnd, ProtocolError, Received, Resumed, encode_frame,
};

/// A link. What it carries outwards stays in the [`Outgoing`] until the host has it.
#[derive(Debug)]
pub(super) struct Link {
    secret: Key,
    end: LinkEnd,
    /// What goes before the payload: a header, or the answer to a host that has come back.
    head: Vec<u8>,
    head_start: usize,
    /// How much of the packet's payload was not written yet.
    payload: usize,
    away_since: Option<Moment>,
    /// The last packet follows when all is written.
    ending: bool,
    /// The host has ended it.
    closed: bool,
}

impl Link {
    /// A link that packets have crossed as `end` says.
    pub(super) fn new(secret: Key, end: LinkEnd) -> Self {
        let mut link = Self {
            secret,
            end,
            head: Vec::new(),
            head_start: 0,
            payload: 0,
            away_since: None,
            ending: false,
            closed: false,
        };
        link.answer(0);
        link
    }

    /// The first word on a stream.
    fn answer(&mut self, received: u64) {
        self.head.clear();
        self.head_start = 0;
        let resumed = Resumed { received };
        encode_frame(&mut self.head, 0, Kind::Resumed, false, &resumed.encode());
    }

    /// Whether this is its secret.
    pub(super) fn has_secret(&self, secret: &Key) -> bool {
        self.secret == *secret
    }

    /// Since when it has had no stream.
    pub(super) fn away_since(&self) -> Option<Moment> {
        self.away_since
    }

    /// Its stream is gone.
    pub(super) fn lose(&mut self) {
        self.away_since.get_or_insert_with(now);
    }

    /// Whether the host has ended it.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The last packet shall follow when everything is written.
    pub(super) fn end(&mut self) {
        self.ending = true;
    }

    /// Takes what has come over its stream.
    ///
    /// # Errors
    ///
    /// When the host has broken the protocol.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        incoming: &mut FrameBuffer,
        outgoing: &mut Outgoing,
    ) -> core::result::Result<(), ProtocolError> {
        while let Some(received) = self.end.receive(&mut bytes)? {
            match received {
                Received::Data(data) => incoming.extend(data),
                Received::Acknowledged(count) => outgoing.release(count),
                Received::Close => self.closed = true,
            }
        }
        Ok(())
    }

    /// Goes on over another stream, to a host that has received this many bytes.
    ///
    /// # Errors
    ///
    /// When it cannot have.
    pub(super) fn resume(
        &mut self,
        received: u64,
        outgoing: &mut Outgoing,
    ) -> core::result::Result<(), ProtocolError> {
        outgoing.release(self.end.resume(received)?);
        self.answer(self.end.received());
        self.payload = 0;
        self.away_since = None;
        Ok(())
    }

    /// Whether [`Link::write`] has something to write.
    pub(super) fn has_to_write(&self, outgoing: &Outgoing) -> bool {
        let kept = outgoing.len();
        self.has_begun() || self.is_at_end(kept) || self.end.has_packet(kept)
    }

    /// Whether the last packet is next: what the window had no room for comes before it.
    fn is_at_end(&self, kept: usize) -> bool {
        self.ending && self.end.in_flight() == kept
    }

    /// Whether a part of a packet is written, or to be.
    fn has_begun(&self) -> bool {
        self.head_start < self.head.len() || self.payload > 0
    }

    /// Writes what the stream takes without waiting.
    ///
    /// # Errors
    ///
    /// What `writev` reports: the other side is gone.
    pub(super) fn write(&mut self, outgoing: &Outgoing, stream: RawFd) -> Result<()> {
        loop {
            if !self.has_begun() && !self.begin(outgoing.len()) {
                return Ok(());
            }
            let in_flight = self.end.in_flight();
            let head = &self.head[self.head_start..];
            let payload = &outgoing.kept()[in_flight..in_flight + self.payload];
            let written =
                match io::write_vectored(stream, &[IoSlice::new(head), IoSlice::new(payload)]) {
                    Ok(written) => written,
                    Err(Errno::EAGAIN) => return Ok(()),
                    Err(errno) => return Err(errno),
                };
            let of_head = written.min(head.len());
            self.head_start += of_head;
            self.payload -= written - of_head;
            self.end.sent(written - of_head);
        }
    }

    fn begin(&mut self, kept: usize) -> bool {
        if let Some(packet) = self.end.next_packet(kept) {
            self.put(&packet.header);
            self.payload = packet.length;
            return true;
        }
        if self.is_at_end(kept) {
            self.ending = false;
            let last = self.end.last_packet();
            self.put(&last);
            return true;
        }
        false
    }

    fn put(&mut self, head: &[u8]) {
        self.head.clear();
        self.head.extend_from_slice(head);
        self.head_start = 0;
    }
}
