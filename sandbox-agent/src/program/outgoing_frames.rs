//! The queue of frames that wait to be written to a client.

use alloc::vec::Vec;

use crate::runtime::{Errno, Fd, RawFd, io};

use crate::protocol::{FrameKind, HEADER_LEN, Header, MAX_PAYLOAD};

/// Above this many queued bytes, programs' pipes are not read.
pub(super) const OUTPUT_LIMIT: usize = 1024 * 1024;

/// Above this many queued bytes, the client is not read from either: it sends requests and does
/// not read the answers.
pub(super) const READ_LIMIT: usize = 4 * OUTPUT_LIMIT;

/// A queue of frames. The bytes behind `end` are initialized and free, so that a pipe can be read
/// directly into its frame.
#[derive(Debug, Default)]
pub(super) struct OutgoingFrames {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl OutgoingFrames {
    /// Number of queued bytes.
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether programs' pipes may still be read.
    pub(super) fn has_room(&self) -> bool {
        self.len() < OUTPUT_LIMIT
    }

    /// The queued bytes. With a link, they include bytes that were sent and not yet acknowledged.
    pub(super) fn unacknowledged(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Removes the first `count` bytes, which were acknowledged.
    pub(super) fn release(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Appends a message, in as many frames as it needs.
    pub(super) fn message(&mut self, stream: u32, kind: FrameKind, message: &[u8]) {
        let mut rest = message;
        while rest.len() > MAX_PAYLOAD {
            let (head, tail) = rest.split_at(MAX_PAYLOAD);
            self.frame(stream, kind, true, head);
            rest = tail;
        }
        self.frame(stream, kind, false, rest);
    }

    fn frame(&mut self, stream: u32, kind: FrameKind, more: bool, payload: &[u8]) {
        let header = Header {
            stream,
            kind,
            more,
            length: payload.len(),
        }
        .encode();
        let free = self.reserve(HEADER_LEN + payload.len());
        free[..HEADER_LEN].copy_from_slice(&header);
        free[HEADER_LEN..].copy_from_slice(payload);
        self.end += HEADER_LEN + payload.len();
    }

    /// Appends a frame whose payload `fill` writes into a buffer. `fill` returns how many bytes it
    /// wrote; 0 appends no frame. Returns the payload.
    pub(super) fn data(
        &mut self,
        stream: u32,
        kind: FrameKind,
        limit: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<&[u8], Errno> {
        let limit = limit.min(MAX_PAYLOAD);
        let free = self.reserve(HEADER_LEN + limit);
        let length = fill(&mut free[HEADER_LEN..])?.min(limit);
        if length == 0 {
            return Ok(&[]);
        }
        let header = Header {
            stream,
            kind,
            more: false,
            length,
        }
        .encode();
        free[..HEADER_LEN].copy_from_slice(&header);
        let payload = self.end + HEADER_LEN;
        self.end = payload + length;
        Ok(&self.bytes[payload..self.end])
    }

    fn reserve(&mut self, count: usize) -> &mut [u8] {
        // Moves at most as many bytes as were released since the last move.
        if self.end + count > self.bytes.len() && self.start >= self.len() && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end + count > self.bytes.len() {
            self.bytes.resize((self.end + count).next_power_of_two(), 0);
        }
        &mut self.bytes[self.end..self.end + count]
    }

    /// Writes what the stream accepts without blocking.
    ///
    /// # Errors
    ///
    /// What `write` reports: the stream is broken.
    pub(super) fn write_to(&mut self, stream: RawFd) -> Result<(), Errno> {
        while !self.is_empty() {
            match io::write(stream, &self.bytes[self.start..self.end]) {
                Ok(count) => self.start += count,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        self.clear();
        Ok(())
    }

    /// Drops all queued bytes.
    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

/// Writes as much of `bytes` as a pipe accepts without blocking.
///
/// # Errors
///
/// What `write` reports, except `EAGAIN`.
pub(super) fn write_some(pipe: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
    match io::write(pipe, bytes) {
        Err(Errno::EAGAIN) => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::FrameBuffer;

    #[test]
    fn frames_are_written_in_order_and_unchanged() {
        let mut outgoing = OutgoingFrames::default();
        let (mut reader, mut expected) = (FrameBuffer::new(), Vec::new());
        let (read_end, write_end) = io::pipe(crate::runtime::fs::O_NONBLOCK).unwrap();
        for round in 0..2000usize {
            let payload = alloc::vec![round as u8; round * 7 % 5000];
            outgoing.message(1, FrameKind::Pong, &payload);
            expected.push(payload.clone());
            let data = outgoing.data(1, FrameKind::Stdout, payload.len(), |buffer| {
                buffer.copy_from_slice(&payload);
                Ok(buffer.len())
            });
            assert_eq!(data.unwrap(), payload);
            if !payload.is_empty() {
                expected.push(payload);
            }
            outgoing.write_to(write_end.as_raw()).unwrap();
            let mut chunk = [0; 9000];
            if let Ok(count) = io::read(&read_end, &mut chunk) {
                reader.extend(&chunk[..count]);
            }
        }
        while !reader.is_empty() || !outgoing.is_empty() {
            let mut chunk = [0; 60000];
            if let Ok(count) = io::read(&read_end, &mut chunk) {
                reader.extend(&chunk[..count]);
            }
            while let Some(frame) = reader.next_frame().unwrap() {
                assert_eq!(frame.payload, expected.remove(0));
            }
            outgoing.write_to(write_end.as_raw()).unwrap();
        }
        assert!(expected.is_empty());
    }
}
