//! One end of a link: which bytes were received, and which may be sent. It holds no data; its owner
//! does.

use super::{LINK_ACKNOWLEDGE, LINK_WINDOW, MAX_PACKET, PACKET_HEADER, Packet, PacketKind};
use crate::protocol::ProtocolError;

/// One end of a link. Its owner keeps the unacknowledged bytes in order. [`Received::Acknowledged`]
/// and [`LinkEnd::resume`] release them from the front.
#[derive(Debug, Clone)]
pub struct LinkEnd {
    /// How many bytes the peer has acknowledged.
    acknowledged: u64,
    /// How many bytes were sent.
    sent: u64,
    /// How many bytes were received.
    received: u64,
    /// How many received bytes were acknowledged to the peer.
    confirmed: u64,
    header: [u8; PACKET_HEADER],
    /// How many bytes of the header have arrived.
    filled: usize,
    /// How many bytes of the packet's payload are missing.
    payload: usize,
    closed: bool,
}

/// A received item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// The next bytes of data; they count as received.
    Data(&'a [u8]),
    /// The peer has received this many more bytes: release them.
    Acknowledged(usize),
    /// The peer has closed the link.
    Close,
}

/// The next packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outbound {
    /// Its header.
    pub header: [u8; PACKET_HEADER],
    /// How many bytes after [`LinkEnd::in_flight`] it carries.
    pub length: usize,
}

impl Default for LinkEnd {
    fn default() -> Self {
        Self::new()
    }
}

impl LinkEnd {
    /// A new link.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            acknowledged: 0,
            sent: 0,
            received: 0,
            confirmed: 0,
            header: [0; PACKET_HEADER],
            filled: 0,
            payload: 0,
            closed: false,
        }
    }

    /// How many of the kept bytes were sent.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        // At most the window.
        (self.sent - self.acknowledged) as usize
    }

    /// How many bytes were received, for [`super::Resume`] and [`super::Resumed`].
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// How many bytes to read from the stream so that at most `limit` of them are data.
    #[must_use]
    pub fn piece_limit(&self, limit: usize) -> usize {
        match self.payload {
            0 => PACKET_HEADER - self.filled,
            payload => payload.min(limit),
        }
    }

    /// Reads the next item from the front of `bytes`; `None` when all bytes are used.
    ///
    /// # Errors
    ///
    /// If the peer violates the protocol; the link is then unusable.
    pub fn receive<'a>(
        &mut self,
        bytes: &mut &'a [u8],
    ) -> Result<Option<Received<'a>>, ProtocolError> {
        loop {
            if self.closed && !bytes.is_empty() {
                return Err(ProtocolError::Unexpected("packet after the last"));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            if self.payload > 0 {
                let (data, rest) = bytes.split_at(self.payload.min(bytes.len()));
                *bytes = rest;
                self.payload -= data.len();
                self.received += data.len() as u64;
                return Ok(Some(Received::Data(data)));
            }
            let (head, rest) = bytes.split_at((PACKET_HEADER - self.filled).min(bytes.len()));
            self.header[self.filled..self.filled + head.len()].copy_from_slice(head);
            self.filled += head.len();
            *bytes = rest;
            if self.filled < PACKET_HEADER {
                return Ok(None);
            }
            self.filled = 0;
            let packet = Packet::decode(&self.header)?;
            let released = self.acknowledge(packet.acknowledged)?;
            match packet.kind {
                PacketKind::Close => {
                    self.closed = true;
                    return Ok(Some(Received::Close));
                }
                PacketKind::Acknowledge => {}
                PacketKind::Data => self.expect(packet.length)?,
            }
            if released > 0 {
                return Ok(Some(Received::Acknowledged(released)));
            }
        }
    }

    fn acknowledge(&mut self, received: u64) -> Result<usize, ProtocolError> {
        if received > self.sent {
            return Err(ProtocolError::Unexpected(
                "acknowledgment of bytes that were not sent",
            ));
        }
        let released = received
            .checked_sub(self.acknowledged)
            .ok_or(ProtocolError::Unexpected(
                "acknowledgement that goes backwards",
            ))?;
        self.acknowledged = received;
        // At most the window.
        Ok(released as usize)
    }

    fn expect(&mut self, length: usize) -> Result<(), ProtocolError> {
        let unacknowledged = self.received - self.confirmed + length as u64;
        if unacknowledged > LINK_WINDOW as u64 {
            return Err(ProtocolError::CreditExceeded);
        }
        self.payload = length;
        Ok(())
    }

    /// The next packet, if one is due: the unsent ones of `kept` bytes, as many as fit, or an
    /// acknowledgement. Call [`LinkEnd::sent`] after its bytes were sent.
    #[must_use]
    pub fn next_packet(&mut self, kept: usize) -> Option<Outbound> {
        let in_flight = self.in_flight();
        let length = kept
            .saturating_sub(in_flight)
            .min(LINK_WINDOW - in_flight)
            .min(MAX_PACKET);
        let kind = match length {
            0 if self.received - self.confirmed < LINK_ACKNOWLEDGE as u64 => return None,
            0 => PacketKind::Acknowledge,
            _ => PacketKind::Data,
        };
        Some(Outbound {
            header: self.header_of(kind, length),
            length,
        })
    }

    /// Whether [`LinkEnd::next_packet`] would return a packet.
    #[must_use]
    pub fn has_packet(&self, kept: usize) -> bool {
        let in_flight = self.in_flight();
        (kept > in_flight && in_flight < LINK_WINDOW)
            || self.received - self.confirmed >= LINK_ACKNOWLEDGE as u64
    }

    /// The close packet.
    #[must_use]
    pub fn last_packet(&mut self) -> [u8; PACKET_HEADER] {
        self.header_of(PacketKind::Close, 0)
    }

    fn header_of(&mut self, kind: PacketKind, length: usize) -> [u8; PACKET_HEADER] {
        self.confirmed = self.received;
        let packet = Packet {
            kind,
            length,
            acknowledged: self.received,
        };
        packet.encode()
    }

    /// Records that this many bytes of a packet's payload were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count as u64;
    }

    /// Resumes over a new stream, with a peer that has received this many bytes. Returns how many
    /// kept bytes to release. The first message to the peer must contain [`LinkEnd::received`].
    ///
    /// # Errors
    ///
    /// If the peer cannot have received that many, or acknowledged more before.
    pub fn resume(&mut self, received: u64) -> Result<usize, ProtocolError> {
        let released = self.acknowledge(received)?;
        self.sent = received;
        self.confirmed = self.received;
        (self.filled, self.payload) = (0, 0);
        Ok(released)
    }
}
