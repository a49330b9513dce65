//! Standard input of an execution.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

use crate::spi::Source;

/// How many bytes wait in front of the backend before a writer has to.
const WAITING: usize = 64 * 1024;

/// Where an execution's standard input comes from.
#[derive(Default)]
#[non_exhaustive]
pub enum Stdin {
    /// From nowhere: it is empty.
    #[default]
    Null,
    /// From a [`StdinWriter`].
    Piped,
    /// From a reader, to its end. It is read as fast as the program reads, until the program ends.
    Source(Source),
}

impl Stdin {
    /// From a reader.
    pub fn from_reader(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self::Source(Box::new(reader))
    }

    /// From these bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::from_reader(io::Cursor::new(bytes.into()))
    }

    /// What the backend reads from, and what the caller writes to.
    pub(crate) fn open(self) -> (Option<Source>, Option<StdinWriter>) {
        match self {
            Self::Null => (None, None),
            Self::Source(source) => (Some(source), None),
            Self::Piped => {
                let (ours, theirs) = tokio::io::duplex(WAITING);
                (Some(Box::new(theirs)), Some(StdinWriter(ours)))
            }
        }
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Piped => "Piped",
            Self::Source(_) => "Source",
        })
    }
}

/// The caller's end of an execution's standard input.
///
/// Writing waits while the program does not read: at most 64 KiB here, and what the backend holds, wait for it. Once the
/// execution has ended, writing fails with [`io::ErrorKind::BrokenPipe`]. `shutdown`, or dropping it, is the end of the input;
/// the output goes on.
pub struct StdinWriter(DuplexStream);

impl fmt::Debug for StdinWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdinWriter").finish_non_exhaustive()
    }
}

impl AsyncWrite for StdinWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
