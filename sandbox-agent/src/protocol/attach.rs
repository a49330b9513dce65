//! Authentication of later clients.

use core::fmt;

use alloc::vec::Vec;

use super::{MessageReader, MessageWriter, ProtocolError, VERSION};

/// The key that clients authenticate with: 32 random bytes. Debug output does not show it, and
/// comparison takes constant time.
#[derive(Clone)]
pub struct ClientKey([u8; ClientKey::LEN]);

impl ClientKey {
    /// Size of a key in bytes.
    pub const LEN: usize = 32;

    /// Creates a key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The key's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl PartialEq for ClientKey {
    fn eq(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |difference, (one, another)| difference | (one ^ another));
        // Without `black_box`, the compiler may leave the loop at the first difference.
        core::hint::black_box(difference) == 0
    }
}

impl Eq for ClientKey {}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientKey(..)")
    }
}

/// The first message of a later client. The agent reads nothing else before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// The key of [`super::AgentSettings`].
    pub key: ClientKey,
}

impl Attach {
    /// Size of the message in bytes.
    pub const LEN: usize = 2 + 4 + ClientKey::LEN;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode_key(&self.key)
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of
    /// range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        decode_key(message).map(|key| Self { key })
    }
}

/// Encodes a message of the version and a key.
pub(super) fn encode_key(key: &ClientKey) -> Vec<u8> {
    let mut message = MessageWriter::new();
    message.u16(VERSION).bytes(key.as_bytes());
    message.finish()
}

/// Decodes such a message.
pub(super) fn decode_key(message: &[u8]) -> Result<ClientKey, ProtocolError> {
    let mut reader = MessageReader::new(message);
    reader.version()?;
    let key = read_key(&mut reader)?;
    reader.end()?;
    Ok(key)
}

pub(super) fn read_key(reader: &mut MessageReader<'_>) -> Result<ClientKey, ProtocolError> {
    let bytes = reader.bytes()?.try_into();
    bytes
        .map(ClientKey::new)
        .map_err(|_| ProtocolError::BadValue("key"))
}
