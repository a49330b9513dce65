//! The frames that begin and resume a link.

use alloc::vec::Vec;

use crate::protocol::attach::{decode_key, encode_key, read_key};
use crate::protocol::{ClientKey, MessageReader, ProtocolError};

/// The host's first frame on a stream that begins a link: packets follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginLink {
    /// The secret that resuming the link requires: random bytes.
    pub secret: ClientKey,
}

impl BeginLink {
    /// Size of the message in bytes.
    pub const LEN: usize = 2 + 4 + ClientKey::LEN;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode_key(&self.secret)
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of
    /// range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        decode_key(message).map(|secret| Self { secret })
    }
}

/// The host's first frame on a stream that resumes a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The secret of its [`BeginLink`].
    pub secret: ClientKey,
    /// How many bytes the host has received on this link.
    pub received: u64,
}

impl Resume {
    /// Size of the message in bytes.
    pub const LEN: usize = BeginLink::LEN + 8;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = encode_key(&self.secret);
        message.extend(self.received.to_le_bytes());
        message
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// As [`BeginLink::decode`].
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        reader.version()?;
        let secret = read_key(&mut reader)?;
        let received = reader.u64()?;
        reader.end()?;
        Ok(Self { secret, received })
    }
}

/// The agent's first frame on a stream of a link: packets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// How many bytes the agent has received on this link.
    pub received: u64,
}

impl Resumed {
    /// Size of the message in bytes.
    pub const LEN: usize = 8;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.received.to_le_bytes().to_vec()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// If it has another length.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let received = reader.u64()?;
        reader.end()?;
        Ok(Self { received })
    }
}
