//! Packets: twelve bytes of header, then at most [`MAX_PACKET`] bytes.
//!
//! ```text
//! 0      1   2        4                12
//! | kind | 0 | length | acknowledged   | payload …
//! ```
//!
//! All integers are little-endian.

use crate::protocol::{MAX_PAYLOAD, ProtocolError};

/// Size of a packet's header in bytes.
pub const PACKET_HEADER: usize = 12;

/// The largest payload of a packet in bytes.
pub const MAX_PACKET: usize = MAX_PAYLOAD;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketKind {
    /// Carries bytes, one at least.
    Data = 1,
    /// Only says what was received.
    Acknowledge = 2,
    /// The last packet: the link has ended, and nothing is resumed.
    Close = 3,
}

/// A packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// What it is for.
    pub kind: PacketKind,
    /// Bytes of payload that follow.
    pub length: usize,
    /// How many bytes its sender has received on this link, on all its streams together.
    pub acknowledged: u64,
}

impl Packet {
    /// Reads a header.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::UnknownKind`], [`ProtocolError::BadValue`] for what must be zero and for a payload where none belongs or none
    /// is, [`ProtocolError::TooLarge`] for one above [`MAX_PACKET`].
    pub fn decode(bytes: &[u8; PACKET_HEADER]) -> Result<Self, ProtocolError> {
        let [kind, zero, l0, l1, acknowledged @ ..] = *bytes;
        let kind = match kind {
            1 => PacketKind::Data,
            2 => PacketKind::Acknowledge,
            3 => PacketKind::Close,
            other => return Err(ProtocolError::UnknownKind(other)),
        };
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        if zero != 0 || (kind == PacketKind::Data) != (length > 0) {
            return Err(ProtocolError::BadValue("header of a packet"));
        }
        if length > MAX_PACKET {
            return Err(ProtocolError::TooLarge("packet"));
        }
        Ok(Self {
            kind,
            length,
            acknowledged: u64::from_le_bytes(acknowledged),
        })
    }

    /// The header's bytes.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a payload is below 64 KiB")]
    pub fn encode(&self) -> [u8; PACKET_HEADER] {
        debug_assert!(self.length <= MAX_PACKET);
        let mut bytes = [0; PACKET_HEADER];
        bytes[0] = self.kind as u8;
        bytes[2..4].copy_from_slice(&(self.length as u16).to_le_bytes());
        bytes[4..].copy_from_slice(&self.acknowledged.to_le_bytes());
        bytes
    }
}
