//! TCP connections: the first message and the last one of their streams.

use alloc::vec::Vec;

use super::{MessageReader, MessageWriter, ProtocolError};

/// How many bytes a connection may carry in one direction before the receiver grants more: the
/// initial credit of both channels. Smaller than [`super::WINDOW`], as there may be many
/// connections.
pub const CONNECTION_WINDOW: u32 = 128 * 1024;

/// Maximum number of open connections that the host has opened, and of those that the agent has
/// opened.
pub const MAX_CONNECTIONS: usize = 1024;

/// The request for a connection to a port of the sandbox's loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DialRequest {
    /// The TCP port. The agent tries `127.0.0.1` and then `::1`.
    pub port: u16,
}

impl DialRequest {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message.u16(self.port);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let port = read_port(&mut reader)?;
        reader.end()?;
        Ok(Self { port })
    }
}

/// The end of a connection, as its agent saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedReport {
    /// 0 if both directions have ended; otherwise the error number, such as `ECONNREFUSED` of a
    /// connection that was not established, or `ECONNRESET`.
    pub errno: i32,
}

impl ClosedReport {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message.i32(self.errno);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let errno = reader.i32()?;
        reader.end()?;
        if !(0..=4095).contains(&errno) {
            return Err(ProtocolError::BadValue("error number"));
        }
        Ok(Self { errno })
    }
}

pub(super) fn read_port(reader: &mut MessageReader<'_>) -> Result<u16, ProtocolError> {
    match reader.u16()? {
        0 => Err(ProtocolError::BadValue("port")),
        port => Ok(port),
    }
}
