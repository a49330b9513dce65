//! One side of a link: which bytes have arrived, and which may be sent. Holds no bytes: they stay where their owner has them.

use super::{LINK_ACKNOWLEDGE, LINK_WINDOW, MAX_PACKET, PACKET_HEADER, Packet, PacketKind};
use crate::protocol::ProtocolError;

/// One side of a link. Its owner keeps the bytes that the other side has not acknowledged, in order: the first of them is the one that
/// [`Received::Acknowledged`] and [`LinkEnd::resume`] let go first.
#[derive(Debug, Clone)]
pub struct LinkEnd {
    /// How many bytes the other side has.
    acknowledged: u64,
    /// How many were sent.
    sent: u64,
    /// How many were received.
    received: u64,
    /// How many of them the other side was told of.
    told: u64,
    header: [u8; PACKET_HEADER],
    /// How much of the header is here.
    filled: usize,
    /// How much of the packet's payload is to come.
    payload: usize,
    closed: bool,
}

/// What has come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// These bytes are next, and count as received.
    Data(&'a [u8]),
    /// The other side has this many bytes more: the first that are kept may go.
    Acknowledged(usize),
    /// The other side has ended the link.
    Close,
}

/// The next packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outbound {
    /// Its header.
    pub header: [u8; PACKET_HEADER],
    /// How many of the bytes behind [`LinkEnd::in_flight`] it carries.
    pub length: usize,
}

impl Default for LinkEnd {
    fn default() -> Self {
        Self::new()
    }
}

impl LinkEnd {
    /// A link that nothing has crossed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            acknowledged: 0,
            sent: 0,
            received: 0,
            told: 0,
            header: [0; PACKET_HEADER],
            filled: 0,
            payload: 0,
            closed: false,
        }
    }

    /// How many of the bytes that are kept were sent.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        // Never more than the window.
        (self.sent - self.acknowledged) as usize
    }

    /// How many bytes have come, for [`super::Resume`] and [`super::Resumed`].
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// How many bytes may be read from the stream so that at most `limit` of them are data: for one who must not take more.
    #[must_use]
    pub fn piece_limit(&self, limit: usize) -> usize {
        match self.payload {
            0 => PACKET_HEADER - self.filled,
            payload => payload.min(limit),
        }
    }

    /// Takes the next piece off the front of `bytes`; `None` when all of it is used.
    ///
    /// # Errors
    ///
    /// When the other side breaks the protocol: the link has ended then.
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
                "acknowledgement of what was not sent",
            ));
        }
        let released = received
            .checked_sub(self.acknowledged)
            .ok_or(ProtocolError::Unexpected(
                "acknowledgement that goes backwards",
            ))?;
        self.acknowledged = received;
        // Never more than the window.
        Ok(released as usize)
    }

    fn expect(&mut self, length: usize) -> Result<(), ProtocolError> {
        let unacknowledged = self.received - self.told + length as u64;
        if unacknowledged > LINK_WINDOW as u64 {
            return Err(ProtocolError::CreditExceeded);
        }
        self.payload = length;
        Ok(())
    }

    /// The next packet, where one is due: of `kept` bytes, those that were not sent, as many as fit; or an acknowledgement. Its bytes
    /// count as sent once [`LinkEnd::sent`] says so.
    #[must_use]
    pub fn next_packet(&mut self, kept: usize) -> Option<Outbound> {
        let in_flight = self.in_flight();
        let length = kept
            .saturating_sub(in_flight)
            .min(LINK_WINDOW - in_flight)
            .min(MAX_PACKET);
        let kind = match length {
            0 if self.received - self.told < LINK_ACKNOWLEDGE as u64 => return None,
            0 => PacketKind::Acknowledge,
            _ => PacketKind::Data,
        };
        Some(Outbound {
            header: self.header_of(kind, length),
            length,
        })
    }

    /// Whether [`LinkEnd::next_packet`] would give one.
    #[must_use]
    pub fn has_packet(&self, kept: usize) -> bool {
        let in_flight = self.in_flight();
        (kept > in_flight && in_flight < LINK_WINDOW)
            || self.received - self.told >= LINK_ACKNOWLEDGE as u64
    }

    /// The header of the last packet.
    #[must_use]
    pub fn last_packet(&mut self) -> [u8; PACKET_HEADER] {
        self.header_of(PacketKind::Close, 0)
    }

    fn header_of(&mut self, kind: PacketKind, length: usize) -> [u8; PACKET_HEADER] {
        self.told = self.received;
        let packet = Packet {
            kind,
            length,
            acknowledged: self.received,
        };
        packet.encode()
    }

    /// Notes that this many bytes of a packet were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count as u64;
    }

    /// Goes on over a new stream with another side that has received this many bytes; gives how many of those that are kept may go.
    /// What the other side is told first must be [`LinkEnd::received`].
    ///
    /// # Errors
    ///
    /// When that side cannot have received so many, or had more before.
    pub fn resume(&mut self, received: u64) -> Result<usize, ProtocolError> {
        let released = self.acknowledge(received)?;
        self.sent = received;
        self.told = self.received;
        (self.filled, self.payload) = (0, 0);
        Ok(released)
    }
}
