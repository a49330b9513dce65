//! What can be wrong with the bytes of the other side.

use core::fmt;

/// Why bytes are not a message of this protocol. After any of these the connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The message ended before a field that it must have.
    Truncated,
    /// Bytes were left over after the last field.
    TrailingBytes,
    /// A frame names a kind that this version does not know.
    UnknownKind(u8),
    /// A field holds a value outside of its set; the name says which field.
    BadValue(&'static str),
    /// A frame, a message or a list is larger than its bound; the name says which.
    TooLarge(&'static str),
    /// A frame came on a stream, or at a time, where it makes no sense.
    Unexpected(&'static str),
    /// The other side speaks another version.
    Version(u16),
    /// More was sent than was granted.
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
