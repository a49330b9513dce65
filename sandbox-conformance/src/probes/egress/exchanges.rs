//! Exchanges with servers, many in one execution, and what came back.

use super::messages::digits;
use crate::evidence::Attempt;
use crate::probes::prelude::*;

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Datagram,
    Stream,
    /// The client ends its side after the message.
    EndedStream,
}

/// A message, and where it goes.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    transport: Transport,
    /// A name or an address.
    host: String,
    port: u16,
    /// Each is sent a moment after the one before.
    pieces: Vec<Vec<u8>>,
}

impl Exchange {
    pub(super) fn new(
        transport: Transport,
        host: impl Into<String>,
        port: u16,
        message: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            transport,
            host: host.into(),
            port,
            pieces: vec![message.into()],
        }
    }

    /// The number of bytes of the message.
    pub(super) fn length(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Sends the bytes from `at` on a moment later.
    pub(super) fn cut(mut self, at: usize) -> Self {
        let rest = self.pieces[0].split_off(at);
        self.pieces.push(rest);
        self
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExchangeAnswer {
    pub(super) bytes: Vec<u8>,
    /// The name of the error that ended the exchange.
    pub(super) error: Option<String>,
}

impl ExchangeAnswer {
    /// For reports.
    pub(super) fn text(&self) -> String {
        let bytes = String::from_utf8_lossy(&self.bytes);
        let error = self.error.as_deref().unwrap_or("ended");
        format!("{:?}, {error}", bytes.chars().take(300).collect::<String>())
    }
}

/// The call that makes them one after the other.
pub(super) fn call(exchanges: &[Exchange]) -> Call {
    let mut call = Call::new(["exchanges"]);
    for exchange in exchanges {
        let transport = match exchange.transport {
            Transport::Datagram => "udp",
            Transport::Stream => "tcp",
            Transport::EndedStream => "ended",
        };
        let pieces: Vec<_> = exchange.pieces.iter().map(|piece| digits(piece)).collect();
        call = call
            .and(transport)
            .and(format!("{}/{}", exchange.host, exchange.port))
            .and(pieces.join(","));
    }
    call
}

/// Makes them in the attacked sandbox.
pub(super) async fn make(
    context: &mut ProbeContext,
    exchanges: &[Exchange],
) -> Result<Vec<ExchangeAnswer>, Attempt> {
    let result = context.execute(&call(exchanges)).await?;
    let printed = result.stdout_text();
    let answers = answers(&printed).filter(|answers| answers.len() == exchanges.len());
    answers.ok_or_else(|| {
        let text = format!("{}: {}", result.outcome, result.output());
        Attempt::unclear(text.chars().take(300).collect::<String>())
    })
}

/// Reads the line that the program prints.
pub(super) fn answers(printed: &str) -> Option<Vec<ExchangeAnswer>> {
    let mut lines = printed.lines().rev();
    let line = lines.find_map(|line| line.strip_prefix("result=value:"))?;
    let answer = |text: &str| {
        let (digits, error) = match text.split_once('!') {
            Some((digits, error)) => (digits, Some(error.to_owned())),
            None => (text, None),
        };
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes = (0..digits.len()).step_by(2).map(byte);
        Some(ExchangeAnswer {
            bytes: bytes.collect::<Option<_>>()?,
            error,
        })
    };
    line.split(',').map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_answers_are_read() {
        let read = answers("noise\nresult=value:6869,!ECONNREFUSED,,68!ECONNRESET\n").unwrap();
        let read: Vec<_> = read
            .iter()
            .map(|answer| (answer.bytes.as_slice(), answer.error.as_deref()))
            .collect();
        let expected: [(&[u8], Option<&str>); 4] = [
            (b"hi", None),
            (b"", Some("ECONNREFUSED")),
            (b"", None),
            (b"h", Some("ECONNRESET")),
        ];
        assert_eq!(read, expected);
        assert_eq!(answers("result=errno:EPERM\n"), None);
    }
}
