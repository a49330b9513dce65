//! The terminal of an execution.

use alloc::vec::Vec;

use super::{MessageReader, MessageWriter, ProtocolError};

/// The size of a terminal in characters. 0 means unknown, as in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Number of rows.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

impl TerminalSize {
    /// Encodes a [`super::FrameKind::Resize`] message.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        self.write(&mut message);
        message.finish()
    }

    /// Decodes a [`super::FrameKind::Resize`] message.
    ///
    /// # Errors
    ///
    /// When the message has another length.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let size = Self::read(&mut reader)?;
        reader.end()?;
        Ok(size)
    }

    pub(super) fn write(self, message: &mut MessageWriter) {
        message.u16(self.rows).u16(self.columns);
    }

    pub(super) fn read(reader: &mut MessageReader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            rows: reader.u16()?,
            columns: reader.u16()?,
        })
    }
}
