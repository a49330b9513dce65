//! The tail of standard error beside an agent's stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::lock;

/// The most bytes that are kept.
const MAX_BYTES: usize = 4096;

/// The last 4 KiB of standard error beside an agent's stream. Written by the agent, by the program
/// that forwards its bytes, or by the runtime that failed to start it. Clones share the content.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    /// Appends bytes and drops the oldest.
    pub fn extend(&self, bytes: &[u8]) {
        let mut kept = lock(&self.0);
        kept.extend(&bytes[bytes.len().saturating_sub(MAX_BYTES)..]);
        let surplus = kept.len().saturating_sub(MAX_BYTES);
        kept.drain(..surplus);
    }

    /// The text as an explanation why the agent ended; `None` if nothing was written.
    #[must_use]
    pub fn explanation(&self) -> Option<String> {
        let text = self.text()?;
        Some(format!("the agent wrote to its standard error: {text}"))
    }

    /// The text as one line with control characters escaped; `None` if nothing was written.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let kept = lock(&self.0);
        let bytes = kept.iter().copied().collect::<Vec<_>>();
        let text = String::from_utf8_lossy(bytes.trim_ascii());
        (!text.is_empty()).then(|| text.escape_debug().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_is_kept_and_escaped() {
        let words = StderrTail::default();
        assert_eq!(words.text(), None);
        let mut long = vec![b'x'; 3 * MAX_BYTES];
        long.extend(b"\x1b[31mend");
        for bytes in [&b"first"[..], &long, b"!\n"] {
            words.extend(bytes);
        }
        let text = words.text().expect("words");
        assert!(text.ends_with("x\\u{1b}[31mend!"), "{text}");
        assert!(text.len() < MAX_BYTES + 16 && !text.contains("first"));
    }
}
