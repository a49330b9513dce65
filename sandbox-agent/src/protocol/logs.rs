//! Requests for the log.

use alloc::vec::Vec;

use super::{MessageReader, MessageWriter, ProtocolError};

/// The part of the log that a stream sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRequest {
    /// Maximum number of last lines; an unfinished line counts. [`u32::MAX`] for all.
    pub tail: u32,
    /// Whether the stream continues with new output, until the client kills it or the sandbox
    /// stops.
    pub follow: bool,
}

impl LogRequest {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message.u32(self.tail).bool(self.follow);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let request = Self {
            tail: reader.u32()?,
            follow: reader.bool()?,
        };
        reader.end()?;
        Ok(request)
    }
}
