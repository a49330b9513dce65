//! Turns a container's attached stream into the agent's byte stream.
//!
//! The engine tags each piece of output with its descriptor. Standard output carries the agent's
//! protocol; the end of standard error is kept for error messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bytes::{Buf, Bytes};
use futures_util::Stream;
use sandbox_host::LastWords;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, EngineError>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// A duplex byte stream to a container's first process.
pub(crate) struct AttachStream {
    output: Output,
    input: Input,
    rest: Bytes,
    last_words: LastWords,
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

    /// The end of the agent's standard error, as far as this stream was read.
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
