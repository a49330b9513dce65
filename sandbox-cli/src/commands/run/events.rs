//! The output of a program as events: one JSON object in each line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox::{OutputStream, SandboxHandle};
use serde::Serialize;

/// The first event.
#[derive(Debug, Serialize)]
pub struct StartedEvent<'a> {
    event: &'static str,
    sandbox: &'a str,
    tier: &'a str,
}

impl<'a> StartedEvent<'a> {
    /// The program is about to start in this sandbox.
    pub fn new(sandbox: &'a SandboxHandle) -> Self {
        Self {
            event: "started",
            sandbox: sandbox.name(),
            tier: sandbox.tier(),
        }
    }
}

/// Output of the program.
#[derive(Debug, Serialize)]
struct OutputEvent<'a> {
    event: &'static str,
    text: &'a str,
    /// The bytes, if the text cannot represent them.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Makes events of output, without cutting characters: the first bytes of an incomplete character
/// wait for the others.
#[derive(Debug, Default)]
pub struct EventEncoder {
    waiting: [Vec<u8>; 2],
}

impl EventEncoder {
    /// The event of this output, with a line's end; empty if all of it waits.
    pub fn encode(&mut self, stream: OutputStream, bytes: &[u8]) -> Vec<u8> {
        let mut output = std::mem::take(&mut self.waiting[stream as usize]);
        output.extend_from_slice(bytes);
        let keep = incomplete(&output);
        self.waiting[stream as usize] = output.split_off(output.len() - keep);
        line(stream, &output)
    }

    /// The events of what still waits.
    pub fn finish(&mut self) -> Vec<u8> {
        let streams = [OutputStream::Stdout, OutputStream::Stderr];
        let rest = streams.map(|stream| {
            let waiting = std::mem::take(&mut self.waiting[stream as usize]);
            line(stream, &waiting)
        });
        rest.concat()
    }
}

/// The number of bytes at the end that begin a character and do not complete it.
fn incomplete(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        Ok(_) | Err(_) => 0,
    }
}

fn line(stream: OutputStream, bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(bytes);
    let event = OutputEvent {
        event: match stream {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        },
        base64: (text.as_bytes() != bytes).then(|| STANDARD.encode(bytes)),
        text: &text,
    };
    // Text and numbers can always be encoded.
    let mut line = serde_json::to_vec(&event).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn characters_are_not_cut() {
        let mut encoder = EventEncoder::default();
        let mut encode = |bytes: &[u8]| text(encoder.encode(OutputStream::Stdout, bytes));
        assert_eq!(encode(b"a\xc3"), "{\"event\":\"stdout\",\"text\":\"a\"}\n");
        assert_eq!(encode(b"\xa4"), "{\"event\":\"stdout\",\"text\":\"ä\"}\n");
        assert_eq!(encode(b"\xe2"), "");
        assert_eq!(
            text(encoder.finish()),
            "{\"event\":\"stdout\",\"text\":\"\u{fffd}\",\"base64\":\"4g==\"}\n"
        );
        assert_eq!(encoder.finish(), b"");
    }

    #[test]
    fn bytes_that_are_no_text_have_a_base64_twin() {
        let mut encoder = EventEncoder::default();
        assert_eq!(
            text(encoder.encode(OutputStream::Stderr, b"a\xffb\n")),
            "{\"event\":\"stderr\",\"text\":\"a\u{fffd}b\\n\",\"base64\":\"Yf9iCg==\"}\n"
        );
    }
}
