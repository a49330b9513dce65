//! What a way to an agent says beside the agent's bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How many bytes are kept.
const MOST: usize = 4096;

/// The last 4 KiB of what was written to standard error beside an agent's stream: by the agent, by the program that carries its bytes, or
/// by the runtime that could not start it. Its clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    /// Adds bytes, of which the end is kept.
    pub fn extend(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&bytes[bytes.len().saturating_sub(MOST)..]);
        let surplus = kept.len().saturating_sub(MOST);
        kept.drain(..surplus);
    }

    /// As one line, with what could disturb a terminal escaped; `None` where nothing was written.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.iter().copied().collect::<Vec<_>>();
        let text = String::from_utf8_lossy(bytes.trim_ascii());
        (!text.is_empty()).then(|| text.escape_debug().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept_and_escaped() {
        let words = LastWords::default();
        assert_eq!(words.text(), None);
        let mut long = vec![b'x'; 3 * MOST];
        long.extend(b"\x1b[31mend");
        for bytes in [&b"first"[..], &long, b"!\n"] {
            words.extend(bytes);
        }
        let text = words.text().expect("words");
        assert!(text.ends_with("x\\u{1b}[31mend!"), "{text}");
        assert!(text.len() < MOST + 16 && !text.contains("first"));
    }
}
