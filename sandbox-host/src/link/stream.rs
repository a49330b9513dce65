//! The stream that a link provides.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Shared;

/// A duplex byte stream that survives the streams below it. Dropping it ends the link.
#[derive(Debug)]
pub(crate) struct LinkedStream {
    shared: Arc<Shared>,
}

impl LinkedStream {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The state of the link.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl Drop for LinkedStream {
    fn drop(&mut self) {
        self.shared.drop_stream();
    }
}

impl AsyncRead for LinkedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.shared.poll_read(context, buffer)
    }
}

impl AsyncWrite for LinkedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.shared.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Written bytes are sent as soon as possible.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Only the drop ends the link: a link cannot close a single direction.
        Poll::Ready(Ok(()))
    }
}
