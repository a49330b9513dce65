//! How a later client introduces itself to an agent that serves several.

use core::fmt;

use alloc::vec::Vec;

use super::{ProtocolError, Reader, VERSION, Writer};

/// What a client must know to be served: 32 random bytes. It is never printed, and compared in constant time.
#[derive(Clone)]
pub struct Key([u8; Key::LEN]);

impl Key {
    /// Size of a key in bytes.
    pub const LEN: usize = 32;

    /// The key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the state of a client: a file that only its user reads.
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
        // Without it, the compiler may leave the loop at the first difference.
        core::hint::black_box(difference) == 0
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The first message of a later client. Nothing else that it sends is looked at before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// The key out of [`super::Settings`].
    pub key: Key,
}

impl Attach {
    /// Size of the message in bytes.
    pub const LEN: usize = 2 + 4 + Key::LEN;

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message.u16(VERSION).bytes(self.key.as_bytes());
        message.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of range or left over.
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
