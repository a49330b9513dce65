//! Captures output up to a limit.

use crate::spi::{Flow, OutputStream};
use crate::{ByteSize, Captured};

/// Output beyond the limit is counted and dropped, so that the program can finish. A program that
/// writes this many times the limit, and at least [`DRAIN_FLOOR`], is killed as
/// [`crate::Outcome::OutputLimit`].
pub(crate) const DRAIN_FACTOR: u64 = 4;

/// A program that writes less is never killed for its output.
pub(crate) const DRAIN_FLOOR: ByteSize = ByteSize::mib(64);

/// What happened to output beyond the limit of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// It was counted and dropped.
    Cut,
    /// The program was killed for it.
    Killed,
}

/// Captures the first bytes of each stream and counts the rest.
#[derive(Debug)]
pub(crate) struct Capture {
    stdout: Stream,
    stderr: Stream,
    keeps: bool,
}

#[derive(Debug)]
struct Stream {
    kept: Captured,
    cap: usize,
    ceiling: u64,
}

impl Stream {
    fn new(cap: ByteSize, keeps: bool) -> Self {
        let ceiling = cap
            .as_u64()
            .saturating_mul(DRAIN_FACTOR)
            .max(DRAIN_FLOOR.as_u64());
        Self {
            kept: Captured::default(),
            cap: if keeps { cap.as_usize() } else { 0 },
            ceiling,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Flow {
        let room = self.cap - self.kept.bytes.len();
        self.kept
            .bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.kept.total = self.kept.total.saturating_add(bytes.len() as u64);
        if self.is_far_beyond() {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }

    fn is_far_beyond(&self) -> bool {
        self.kept.total > self.ceiling
    }
}

impl Capture {
    /// Captures this many bytes of each stream.
    pub(crate) fn new(stdout: ByteSize, stderr: ByteSize) -> Self {
        Self::with(stdout, stderr, true)
    }

    /// Captures nothing, and stops a program where [`Capture::new`] would.
    pub(crate) fn counting(stdout: ByteSize, stderr: ByteSize) -> Self {
        Self::with(stdout, stderr, false)
    }

    /// Captures nothing and stops no program.
    pub(crate) fn unlimited() -> Self {
        let most = ByteSize::bytes(u64::MAX);
        Self::with(most, most, false)
    }

    fn with(stdout: ByteSize, stderr: ByteSize, keeps: bool) -> Self {
        Self {
            stdout: Stream::new(stdout, keeps),
            stderr: Stream::new(stderr, keeps),
            keeps,
        }
    }

    /// Returns the streams that exceeded their limit.
    pub(crate) fn excess(&self) -> Vec<(OutputStream, Excess)> {
        let of = |stream: &Stream| match stream {
            stream if stream.is_far_beyond() => Some(Excess::Killed),
            stream if self.keeps && stream.kept.truncated() => Some(Excess::Cut),
            _ => None,
        };
        let streams = [
            (OutputStream::Stdout, of(&self.stdout)),
            (OutputStream::Stderr, of(&self.stderr)),
        ];
        let beyond = |(stream, excess): (_, Option<_>)| excess.map(|excess| (stream, excess));
        streams.into_iter().filter_map(beyond).collect()
    }

    /// Returns the captured output.
    pub(crate) fn finish(self) -> (Captured, Captured) {
        (self.stdout.kept, self.stderr.kept)
    }

    /// Takes a piece of output.
    pub(crate) fn take(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        match stream {
            OutputStream::Stdout => self.stdout.write(bytes),
            OutputStream::Stderr => self.stderr.write(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_are_captured_and_all_are_counted() {
        let mut capture = Capture::new(ByteSize::bytes(4), ByteSize::bytes(0));
        assert_eq!(capture.take(OutputStream::Stdout, b"abc"), Flow::Continue);
        assert_eq!(capture.take(OutputStream::Stdout, b"def"), Flow::Continue);
        assert_eq!(capture.take(OutputStream::Stderr, b"x"), Flow::Continue);
        let excess = capture.excess();
        assert_eq!(
            excess,
            [
                (OutputStream::Stdout, Excess::Cut),
                (OutputStream::Stderr, Excess::Cut)
            ]
        );
        let (stdout, stderr) = capture.finish();
        assert_eq!(
            (stdout.bytes.as_slice(), stdout.total, stdout.truncated()),
            (&b"abcd"[..], 6, true)
        );
        assert_eq!(
            (stderr.bytes.as_slice(), stderr.total, stderr.truncated()),
            (&b""[..], 1, true)
        );
    }

    #[test]
    fn program_that_writes_far_beyond_the_limit_is_stopped() {
        let mut capture = Capture::new(ByteSize::bytes(1), ByteSize::bytes(1));
        let piece = vec![0; 1 << 20];
        let pieces =
            (0..).take_while(|_| capture.take(OutputStream::Stdout, &piece) == Flow::Continue);
        assert_eq!(pieces.count() as u64, DRAIN_FLOOR.as_u64() / (1 << 20));
        assert_eq!(capture.excess(), [(OutputStream::Stdout, Excess::Killed)]);
    }

    #[test]
    fn counting_capture_keeps_no_bytes_and_reports_no_cut() {
        let mut capture = Capture::counting(ByteSize::bytes(1), ByteSize::bytes(1));
        assert_eq!(capture.take(OutputStream::Stderr, b"abc"), Flow::Continue);
        assert_eq!(capture.excess(), []);
        let (_, stderr) = capture.finish();
        assert_eq!((stderr.bytes.len(), stderr.total), (0, 3));
    }
}
