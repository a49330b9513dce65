//! Frames of the channel between this process and a driver: a kind, a length, a payload.

use bytes::{Buf as _, Bytes, BytesMut};

/// The length of a frame's head.
const HEAD: usize = 5;

/// The largest piece of output in a frame.
const MAX_OUTPUT: usize = 1 << 20;

/// The largest message. A display of 8 MiB has at most six bytes for each in JSON.
pub(super) const MAX_MESSAGE: usize = 64 << 20;

/// What a driver sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    Stdout(Bytes),
    Stderr(Bytes),
    Message(Bytes),
}

/// A frame for a driver.
pub(super) fn encode(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("requests are much smaller");
    let mut frame = Vec::with_capacity(HEAD + payload.len());
    frame.push(kind);
    frame.extend(length.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Finds frames in the bytes that a driver sent.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: BytesMut,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame; an error says how the bytes are wrong.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, String> {
        let Some(head) = self.bytes.get(..HEAD) else {
            return Ok(None);
        };
        let kind = head[0];
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let most = match kind {
            b'o' | b'e' => MAX_OUTPUT,
            b'm' => MAX_MESSAGE,
            other => return Err(format!("a frame of the unknown kind {other}")),
        };
        if length > most {
            return Err(format!("a frame of {length} bytes"));
        }
        if self.bytes.len() < HEAD + length {
            return Ok(None);
        }
        self.bytes.advance(HEAD);
        let payload = self.bytes.split_to(length).freeze();
        Ok(Some(match kind {
            b'o' => Frame::Stdout(payload),
            b'e' => Frame::Stderr(payload),
            _ => Frame::Message(payload),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_arrives_in_pieces() {
        let mut frames = Frames::default();
        for byte in encode(b'o', b"ab") {
            assert_eq!(frames.next(), Ok(None));
            frames.push(&[byte]);
        }
        assert_eq!(
            frames.next(),
            Ok(Some(Frame::Stdout(Bytes::from_static(b"ab"))))
        );
        assert_eq!(frames.next(), Ok(None));
    }

    #[test]
    fn unknown_kind_and_long_frame_are_refused_at_their_head() {
        for head in [*b"x\0\0\0\0", *b"o\0\x10\0\x01", *b"m\x04\0\0\x01"] {
            let mut frames = Frames::default();
            frames.push(&head);
            assert!(frames.next().is_err(), "{head:?}");
        }
    }
}
