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
use sandbox_host::StderrTail;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type EngineOutput = Pin<Box<dyn Stream<Item = Result<LogOutput, EngineError>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// A duplex byte stream to a container's first process.
pub(crate) struct AttachStream {
    output: EngineOutput,
    input: Input,
    rest: Bytes,
    stderr_tail: StderrTail,
}

impl AttachStream {
    pub(crate) fn new(output: EngineOutput, input: Input) -> Self {
        Self {
            output,
            input,
            rest: Bytes::new(),
            stderr_tail: StderrTail::default(),
        }
    }

    /// Appends the agent's standard error to this tail.
    pub(crate) fn with_stderr_tail(mut self, stderr_tail: StderrTail) -> Self {
        self.stderr_tail = stderr_tail;
        self
    }

    /// The end of the agent's standard error, as far as this stream was read.
    pub(crate) fn stderr_tail(&self) -> StderrTail {
        self.stderr_tail.clone()
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
                Some(Ok(LogOutput::StdErr { message })) => self.stderr_tail.extend(&message),
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
    async fn stream_carries_standard_output_only() {
        let mut stream = stream_of(vec![
            stdout(b"ab"),
            stderr(b"oops\n"),
            stdout(b""),
            stdout(b"c"),
        ]);
        let stderr = stream.stderr_tail();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("read");
        assert_eq!(bytes, b"abc");
        assert_eq!(stderr.text().as_deref(), Some("oops"));
    }

    #[tokio::test]
    async fn piece_is_read_in_parts_by_a_small_buffer() {
        let mut stream = stream_of(vec![stdout(b"abcdef")]);
        let mut pair = [0; 2];
        for expected in [b"ab", b"cd", b"ef"] {
            stream.read_exact(&mut pair).await.expect("read");
            assert_eq!(&pair, expected);
        }
        assert_eq!(stream.read(&mut pair).await.expect("end"), 0);
    }

    #[tokio::test]
    async fn unknown_output_and_broken_streams_are_errors() {
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
    async fn written_bytes_reach_the_input() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = AttachStream::new(Box::pin(stream::pending()), Box::pin(near));
        stream.write_all(b"hello").await.expect("write");
        stream.shutdown().await.expect("shutdown");
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.expect("read");
        assert_eq!(bytes, b"hello");
    }
}
