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
    /// Carries at least one byte of data.
    Data = 1,
    /// Acknowledges received bytes.
    Acknowledge = 2,
    /// Closes the link; it cannot be resumed.
    Close = 3,
}

/// A packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The packet's kind.
    pub kind: PacketKind,
    /// Number of bytes of payload.
    pub length: usize,
    /// How many bytes the sender has received on this link.
    pub acknowledged: u64,
}

impl Packet {
    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::UnknownKind`]; [`ProtocolError::BadValue`] for a nonzero reserved byte, a
    /// data packet without payload, or another one with payload; [`ProtocolError::TooLarge`] above
    /// [`MAX_PACKET`].
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

    /// Encodes the header.
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
