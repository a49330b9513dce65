//! What a client asks of the log.

use alloc::vec::Vec;

use super::{ProtocolError, Reader, Writer};

/// Which part of the log a stream sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRequest {
    /// How many of the last lines, at most; an unfinished one counts. [`u32::MAX`] for all that are kept.
    pub tail: u32,
    /// Whether the stream goes on with what is written from now on, until the client kills it or the sandbox stops.
    pub follow: bool,
}

impl LogRequest {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message.u32(self.tail).bool(self.follow);
        message.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        let request = Self {
            tail: reader.u32()?,
            follow: reader.bool()?,
        };
        reader.end()?;
        Ok(request)
    }
}
