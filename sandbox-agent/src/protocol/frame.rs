//! Frames: eight bytes of header, then at most [`MAX_PAYLOAD`] bytes.
//!
//! ```text
//! 0        4      5       6        8
//! | stream | kind | flags | length | payload …
//! ```
//!
//! All integers are little-endian.

use alloc::vec::Vec;

use super::{FrameKind, ProtocolError};

/// Size of a frame's header in bytes.
pub const HEADER_LEN: usize = 8;

/// The largest frame in bytes, header included.
pub const MAX_FRAME: usize = 64 * 1024;

/// The largest payload of a frame in bytes.
pub const MAX_PAYLOAD: usize = MAX_FRAME - HEADER_LEN;

/// Flag: the message continues in the next frame of the same stream and kind.
pub const FLAG_MORE: u8 = 1;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 0 for the connection, else the stream's number.
    pub stream: u32,
    /// What the payload is.
    pub kind: FrameKind,
    /// Whether the message continues in the next frame.
    pub more: bool,
    /// Number of bytes of payload.
    pub length: usize,
}

impl Header {
    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::UnknownKind`], [`ProtocolError::BadValue`] for unknown flags and
    /// [`ProtocolError::TooLarge`] for a payload above [`MAX_PAYLOAD`].
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, ProtocolError> {
        let [s0, s1, s2, s3, kind, flags, l0, l1] = *bytes;
        if flags & !FLAG_MORE != 0 {
            return Err(ProtocolError::BadValue("flags"));
        }
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        if length > MAX_PAYLOAD {
            return Err(ProtocolError::TooLarge("frame"));
        }
        Ok(Self {
            stream: u32::from_le_bytes([s0, s1, s2, s3]),
            kind: FrameKind::from_byte(kind)?,
            more: flags & FLAG_MORE != 0,
            length,
        })
    }

    /// Encodes the header.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a payload is below 64 KiB")]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        debug_assert!(self.length <= MAX_PAYLOAD);
        let [s0, s1, s2, s3] = self.stream.to_le_bytes();
        let [l0, l1] = (self.length as u16).to_le_bytes();
        [
            s0,
            s1,
            s2,
            s3,
            self.kind as u8,
            if self.more { FLAG_MORE } else { 0 },
            l0,
            l1,
        ]
    }
}

/// A frame, with its payload borrowed from the read buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The payload, `header.length` bytes.
    pub payload: &'a [u8],
}

/// Appends one frame to `out`.
///
/// # Panics
///
/// If `payload` is larger than [`MAX_PAYLOAD`]. [`encode_message`] splits messages.
pub fn encode_frame(out: &mut Vec<u8>, stream: u32, kind: FrameKind, more: bool, payload: &[u8]) {
    assert!(
        payload.len() <= MAX_PAYLOAD,
        "a frame's payload is at most {MAX_PAYLOAD} bytes"
    );
    out.extend_from_slice(
        &Header {
            stream,
            kind,
            more,
            length: payload.len(),
        }
        .encode(),
    );
    out.extend_from_slice(payload);
}

/// Appends a message to `out`, in as many frames as it needs.
pub fn encode_message(out: &mut Vec<u8>, stream: u32, kind: FrameKind, message: &[u8]) {
    let mut rest = message;
    while rest.len() > MAX_PAYLOAD {
        let (head, tail) = rest.split_at(MAX_PAYLOAD);
        encode_frame(out, stream, kind, true, head);
        rest = tail;
    }
    encode_frame(out, stream, kind, false, rest);
}

/// Received bytes, returned frame by frame. The owner limits its size by reading at most
/// [`MAX_FRAME`] ahead.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl FrameBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds received bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.bytes.len() || self.start >= MAX_FRAME) {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes all bytes in the buffer, because no more frames follow.
    #[must_use]
    pub fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.start);
        self.bytes.clear();
        self.start = 0;
        rest
    }

    /// Number of bytes in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next complete frame, or `None` until more bytes are added.
    ///
    /// # Errors
    ///
    /// As [`Header::decode`]; the buffer is unusable afterwards.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ProtocolError> {
        let Some(head) = self.bytes[self.start..].first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let header = Header::decode(head)?;
        let end = self.start + HEADER_LEN + header.length;
        if end > self.bytes.len() {
            return Ok(None);
        }
        let payload = self.start + HEADER_LEN;
        self.start = end;
        Ok(Some(Frame {
            header,
            payload: &self.bytes[payload..end],
        }))
    }
}
