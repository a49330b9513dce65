//! The sandbox's log: the last bytes of its programs' output, in order of arrival.

use crate::runtime::Errno;

use super::private_memory::PrivateMemory;

/// A ring buffer. A position counts all bytes ever written.
#[derive(Debug)]
pub(super) struct OutputLog {
    ring: PrivateMemory,
    capacity: usize,
    written: u64,
}

impl OutputLog {
    /// Keeps the last `capacity` bytes. Pages are allocated when they are first written.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(capacity: usize) -> Result<Self, Errno> {
        Ok(Self {
            ring: PrivateMemory::new(capacity)?,
            capacity,
            written: 0,
        })
    }

    /// Appends bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.capacity)..];
        self.written += (bytes.len() - kept.len()) as u64;
        let mut rest = kept;
        while !rest.is_empty() {
            let at = self.index(self.written);
            let count = rest.len().min(self.capacity - at);
            let (head, tail) = rest.split_at(count);
            self.ring.bytes_mut()[at..at + count].copy_from_slice(head);
            self.written += count as u64;
            rest = tail;
        }
    }

    /// The position after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.written
    }

    /// The position of the oldest byte that is left.
    pub(super) fn oldest(&self) -> u64 {
        self.written.saturating_sub(self.capacity as u64)
    }

    /// Where the last `lines` lines begin, or the oldest byte. An unfinished line at the end
    /// counts.
    pub(super) fn tail(&self, lines: u32) -> u64 {
        let (oldest, end) = (self.oldest(), self.end());
        if lines == 0 {
            return end;
        }
        let mut left = lines;
        let mut behind = end;
        let mut last = [0];
        // A line feed at the very end ends the last line; every other one is followed by a line.
        if end > oldest && self.read(end - 1, &mut last) == 1 && last == *b"\n" {
            behind -= 1;
        }
        while behind > oldest {
            let at = self.index(behind - 1) + 1;
            let span = at.min(usize::try_from(behind - oldest).unwrap_or(at));
            let piece = &self.ring.bytes()[at - span..at];
            let Some(found) = piece.iter().rposition(|byte| *byte == b'\n') else {
                behind -= span as u64;
                continue;
            };
            behind -= (span - 1 - found) as u64;
            left -= 1;
            if left == 0 {
                return behind;
            }
            behind -= 1;
        }
        oldest
    }

    /// Copies bytes from `position` on into `buffer` and returns how many. `position` must not be
    /// before [`OutputLog::oldest`].
    pub(super) fn read(&self, position: u64, buffer: &mut [u8]) -> usize {
        let available = usize::try_from(self.written - position).unwrap_or(usize::MAX);
        let total = available.min(buffer.len());
        let mut done = 0;
        while done < total {
            let at = self.index(position + done as u64);
            let count = (total - done).min(self.capacity - at);
            buffer[done..done + count].copy_from_slice(&self.ring.bytes()[at..at + count]);
            done += count;
        }
        total
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a remainder of the capacity"
    )]
    fn index(&self, position: u64) -> usize {
        (position % self.capacity as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    #[test]
    fn log_keeps_the_last_bytes() {
        for capacity in [1, 2, 7, 64] {
            let (mut log, mut all) = (OutputLog::new(capacity).unwrap(), Vec::new());
            for round in 0..200usize {
                let bytes: Vec<u8> = (0..round % 11).map(|n| (round * 13 + n) as u8).collect();
                log.append(&bytes);
                all.extend_from_slice(&bytes);
                assert_eq!(log.end(), all.len() as u64);
                let mut kept = vec![0; 100];
                let count = log.read(log.oldest(), &mut kept);
                assert_eq!(&kept[..count], &all[all.len().saturating_sub(capacity)..]);
            }
        }
    }

    #[test]
    fn tail_counts_lines_including_an_unfinished_one() {
        for capacity in [1, 2, 5, 9, 64] {
            let (mut log, mut all) = (OutputLog::new(capacity).unwrap(), Vec::new());
            for text in [
                "",
                "a\nbc",
                "d",
                "\n",
                "\n",
                "long line\n",
                "x\ny\n\nz",
                "\n",
            ] {
                log.append(text.as_bytes());
                all.extend_from_slice(text.as_bytes());
                let kept = &all[all.len().saturating_sub(capacity)..];
                let lines: Vec<&[u8]> = kept.split_inclusive(|byte| *byte == b'\n').collect();
                for count in 0..8u32 {
                    let expected = lines[lines.len().saturating_sub(count as usize)..].concat();
                    let mut read = vec![0; 100];
                    let length = log.read(log.tail(count), &mut read);
                    assert_eq!(&read[..length], expected, "{capacity}, {text:?}, {count}");
                }
                assert_eq!(log.tail(u32::MAX), log.oldest());
            }
        }
    }

    #[test]
    fn log_with_zero_capacity_keeps_nothing() {
        let mut log = OutputLog::new(0).unwrap();
        log.append(b"gone");
        assert_eq!((log.oldest(), log.end(), log.tail(1)), (4, 4, 4));
        assert_eq!(log.read(4, &mut [0; 4]), 0);
    }
}
