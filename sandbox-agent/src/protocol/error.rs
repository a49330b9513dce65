//! Protocol violations.

use core::fmt;

/// A protocol violation. The connection cannot continue after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The message ends before its last field.
    Truncated,
    /// Bytes follow the last field.
    TrailingBytes,
    /// The frame's kind is unknown.
    UnknownKind(u8),
    /// A field's value is out of range; the text names the field.
    BadValue(&'static str),
    /// A frame, message or list exceeds its maximum size; the text says which.
    TooLarge(&'static str),
    /// A frame on a wrong stream, or at a wrong time.
    Unexpected(&'static str),
    /// The peer uses another protocol version.
    Version(u16),
    /// The peer sent more bytes than were granted.
    CreditExceeded,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("message ends in the middle of a field"),
            Self::TrailingBytes => f.write_str("bytes after the last field of a message"),
            Self::UnknownKind(kind) => write!(f, "unknown frame kind {kind:#04x}"),
            Self::BadValue(field) => write!(f, "value out of range in {field}"),
            Self::TooLarge(what) => write!(f, "{what} is larger than allowed"),
            Self::Unexpected(what) => write!(f, "unexpected {what}"),
            Self::Version(version) => {
                write!(f, "protocol version {version}, expected {}", super::VERSION)
            }
            Self::CreditExceeded => f.write_str("more bytes than were granted"),
        }
    }
}

impl core::error::Error for ProtocolError {}
