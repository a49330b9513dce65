//! The queue of frames to an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

/// The sending end of the queue.
pub(crate) type FrameQueue = mpsc::UnboundedSender<QueuedFrames>;

/// Complete frames in the queue.
#[derive(Debug)]
pub(crate) struct QueuedFrames {
    pub(crate) bytes: Vec<u8>,
    _queued_signal: Option<QueuedSignal>,
}

impl From<Vec<u8>> for QueuedFrames {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            _queued_signal: None,
        }
    }
}

/// The signals of an execution that are in the queue. Signals need no credit, so this bounds them:
/// as in the kernel, a pending signal is not queued twice. So at most 64 wait for an agent that
/// does not read.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueuedSignals(Arc<AtomicU64>);

impl QueuedSignals {
    /// The frame of a signal (1 to 64), unless the same signal is in the queue.
    pub(crate) fn frame(&self, number: u8, bytes: Vec<u8>) -> Option<QueuedFrames> {
        let bit = 1 << (number % 64);
        let before = self.0.fetch_or(bit, Ordering::AcqRel);
        (before & bit == 0).then(|| QueuedFrames {
            bytes,
            _queued_signal: Some(QueuedSignal {
                signals: self.clone(),
                bit,
            }),
        })
    }
}

/// A queued signal. Dropped with its frame after the write.
#[derive(Debug)]
struct QueuedSignal {
    signals: QueuedSignals,
    bit: u64,
}

impl Drop for QueuedSignal {
    fn drop(&mut self) {
        self.signals.0.fetch_and(!self.bit, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signal_is_not_queued_again() {
        let (queue, mut waiting) = mpsc::unbounded_channel();
        let signals = QueuedSignals::default();
        for number in (1..=64).cycle().take(10_000) {
            if let Some(frame) = signals.frame(number, vec![number]) {
                queue.send(frame).unwrap();
            }
        }
        assert_eq!(waiting.len(), 64);
        let written = waiting.try_recv().unwrap();
        assert_eq!(written.bytes, [1]);
        assert!(signals.frame(1, vec![1]).is_none(), "it is being written");
        drop(written);
        assert!(signals.frame(1, vec![1]).is_some());
    }
}
