//! A stream that can be closed from outside, which ends its agent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A stream that ends and is closed when its [`Cut`] is dropped.
#[derive(Debug)]
pub struct CutStream<S> {
    stream: Option<S>,
    cut: oneshot::Receiver<()>,
}

/// Closes a stream when dropped.
#[derive(Debug)]
pub struct Cut(#[allow(dead_code, reason = "its drop is its use")] oneshot::Sender<()>);

impl<S> CutStream<S> {
    /// Wraps a stream; dropping the [`Cut`] closes it.
    pub fn new(stream: S) -> (Self, Cut) {
        let (sender, cut) = oneshot::channel();
        let stream = Self {
            stream: Some(stream),
            cut,
        };
        (stream, Cut(sender))
    }

    /// The inner stream, unless it was closed.
    fn whole(&mut self, context: &mut Context<'_>) -> Option<&mut S> {
        if Pin::new(&mut self.cut).poll(context).is_ready() {
            self.stream = None;
        }
        self.stream.as_mut()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stream.is_none() {
            return Poll::Ready(Ok(()));
        }
        match self.whole(context) {
            Some(stream) => Pin::new(stream).poll_read(context, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_write(context, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_cut_ends_both_sides() {
        let (near, mut far) = tokio::io::duplex(64);
        let (mut stream, cut) = CutStream::new(near);
        far.write_all(b"ab").await.expect("write");
        let mut two = [0; 2];
        stream.read_exact(&mut two).await.expect("read");
        let reading = tokio::spawn(async move {
            let count = stream.read(&mut two).await;
            (count, stream)
        });
        tokio::task::yield_now().await;
        drop(cut);
        let (count, mut stream) = reading.await.expect("task");
        assert_eq!(count.expect("end"), 0);
        assert_eq!(far.read(&mut two).await.expect("end"), 0, "closed");
        assert!(stream.write_all(b"x").await.is_err());
        assert_eq!(stream.read(&mut two).await.expect("end"), 0, "again");
    }
}
