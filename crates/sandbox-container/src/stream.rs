//! The attached stream of a container as the agent's bytes.
//!
//! The engine marks every piece of output with the descriptor it came from. Standard output is the agent's protocol; what
//! comes on standard error is the agent's last words, of which the end is kept.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bytes::{Buf, Bytes};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes of the agent's standard error are kept.
const LAST_WORDS: usize = 4096;

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, EngineError>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// A duplex byte stream to the process that a container was started with.
pub(crate) struct AttachStream {
    output: Output,
    input: Input,
    rest: Bytes,
    last_words: LastWords,
}

/// The end of what the agent wrote to standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    fn extend(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }

    /// As one line, with what could disturb a terminal escaped; `None` where nothing was written.
    pub(crate) fn text(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.iter().copied().collect::<Vec<_>>();
        let text = String::from_utf8_lossy(bytes.trim_ascii());
        (!text.is_empty()).then(|| text.escape_debug().to_string())
    }
}

impl AttachStream {
    pub(crate) fn new(output: Output, input: Input) -> Self {
        Self {
            output,
            input,
            rest: Bytes::new(),
            last_words: LastWords::default(),
        }
    }

    /// What the agent wrote to standard error, as far as this stream has been read.
    pub(crate) fn last_words(&self) -> LastWords {
        self.last_words.clone()
    }
}

impl AsyncRead for AttachStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.output.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(LogOutput::StdOut { message })) => self.rest = message,
                Some(Ok(LogOutput::StdErr { message })) => self.last_words.extend(&message),
                Some(Ok(_)) => {
                    let why = "the engine sent output that is neither standard output nor error";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
                }
                Some(Err(EngineError::IOError { err })) => return Poll::Ready(Err(err)),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AttachStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn stream_of(items: Vec<Result<LogOutput, EngineError>>) -> AttachStream {
        AttachStream::new(Box::pin(stream::iter(items)), Box::pin(tokio::io::sink()))
    }

    fn stdout(bytes: &'static [u8]) -> Result<LogOutput, EngineError> {
        Ok(LogOutput::StdOut {
            message: bytes.into(),
        })
    }

    fn stderr(bytes: &[u8]) -> Result<LogOutput, EngineError> {
        Ok(LogOutput::StdErr {
            message: bytes.to_vec().into(),
        })
    }

    #[tokio::test]
    async fn standard_output_alone_is_the_stream() {
        let mut stream = stream_of(vec![
            stdout(b"ab"),
            stderr(b"oops\n"),
            stdout(b""),
            stdout(b"c"),
        ]);
        let words = stream.last_words();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("read");
        assert_eq!(bytes, b"abc");
        assert_eq!(words.text().as_deref(), Some("oops"));
    }

    #[tokio::test]
    async fn a_piece_is_handed_out_as_far_as_there_is_room() {
        let mut stream = stream_of(vec![stdout(b"abcdef")]);
        let mut two = [0; 2];
        for expected in [b"ab", b"cd", b"ef"] {
            stream.read_exact(&mut two).await.expect("read");
            assert_eq!(&two, expected);
        }
        assert_eq!(stream.read(&mut two).await.expect("end"), 0);
    }

    #[tokio::test]
    async fn of_the_last_words_only_the_end_is_kept_and_escaped() {
        let mut long = vec![b'x'; 3 * LAST_WORDS];
        long.extend(b"\x1b[31mend");
        let mut stream = stream_of(vec![stderr(b"first"), stderr(&long), stderr(b"!")]);
        let words = stream.last_words();
        stream.read_to_end(&mut Vec::new()).await.expect("read");
        let text = words.text().expect("words");
        assert!(
            text.ends_with("\\u{1b}[31mend!"),
            "{}",
            &text[text.len() - 40..]
        );
        assert!(text.len() < LAST_WORDS + 16 && !text.contains("first"));
    }

    #[tokio::test]
    async fn output_of_no_known_kind_and_broken_streams_are_errors() {
        let console = Ok(LogOutput::Console {
            message: Bytes::from_static(b"x"),
        });
        let broken = Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
        for (item, kind) in [
            (console, io::ErrorKind::InvalidData),
            (broken, io::ErrorKind::ConnectionReset),
        ] {
            let error = stream_of(vec![item])
                .read_to_end(&mut Vec::new())
                .await
                .expect_err("error");
            assert_eq!(error.kind(), kind);
        }
    }

    #[tokio::test]
    async fn what_is_written_reaches_the_input() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = AttachStream::new(Box::pin(stream::pending()), Box::pin(near));
        stream.write_all(b"hello").await.expect("write");
        stream.shutdown().await.expect("shutdown");
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.expect("read");
        assert_eq!(bytes, b"hello");
    }
}
