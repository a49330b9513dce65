//! Authentication of later clients.

use core::fmt;

use alloc::vec::Vec;

use super::{ProtocolError, Reader, VERSION, Writer};

/// The key that clients authenticate with: 32 random bytes. Debug output does not show it, and
/// comparison takes constant time.
#[derive(Clone)]
pub struct Key([u8; Key::LEN]);

impl Key {
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

impl PartialEq for Key {
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

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The first message of a later client. The agent reads nothing else before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// The key of [`super::Settings`].
    pub key: Key,
}

impl Attach {
    /// Size of the message in bytes.
    pub const LEN: usize = 2 + 4 + Key::LEN;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message.u16(VERSION).bytes(self.key.as_bytes());
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of
    /// range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        reader.version()?;
        let key = read_key(&mut reader)?;
        reader.end()?;
        Ok(Self { key })
    }
}

pub(super) fn read_key(reader: &mut Reader<'_>) -> Result<Key, ProtocolError> {
    let bytes = reader.bytes()?.try_into();
    bytes
        .map(Key::new)
        .map_err(|_| ProtocolError::BadValue("key"))
}
