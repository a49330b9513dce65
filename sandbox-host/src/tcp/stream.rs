//! The host's end of a TCP connection of the sandbox.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sandbox_agent::protocol::{Channel, FrameKind, MAX_PAYLOAD, encode_frame};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::state::TcpState;
use crate::outgoing::FrameQueue;

/// A connection's bytes. Shutting it down ends one direction; dropping it before both directions
/// have ended resets the connection inside the sandbox.
#[derive(Debug)]
pub(crate) struct TcpStream {
    id: u32,
    state: Arc<TcpState>,
    outgoing: FrameQueue,
}

impl TcpStream {
    pub(crate) fn new(id: u32, state: Arc<TcpState>, outgoing: FrameQueue) -> Self {
        Self {
            id,
            state,
            outgoing,
        }
    }

    fn frame(&self, kind: FrameKind, payload: &[u8]) {
        let mut bytes = Vec::with_capacity(payload.len() + 8);
        encode_frame(&mut bytes, self.id, kind, false, payload);
        // A closed queue means that the connection has ended; the state reports it.
        let _ = self.outgoing.send(bytes.into());
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let free = buffer.initialize_unfilled();
        if free.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let (count, granted) = ready!(self.state.poll_read(context, free))?;
        buffer.advance(count);
        if let Some(bytes) = granted {
            self.frame(FrameKind::Credit, &Channel::Stdout.credit(bytes));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let wanted = bytes.len().min(MAX_PAYLOAD);
        let count = ready!(self.state.poll_credit(context, wanted))?;
        self.frame(FrameKind::Stdin, &bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.end_sending() {
            self.frame(FrameKind::StdinEnd, b"");
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if self.state.abandon() {
            self.frame(FrameKind::Kill, b"");
        }
    }
}
