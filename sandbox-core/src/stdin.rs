//! Standard input of an execution.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

use crate::{Error, ErrorKind, Result};

/// How many bytes a [`StdinWriter`] buffers until the backend reads them.
const BUFFER: usize = 64 * 1024;

/// The standard input of an execution.
///
/// ```
/// use sandbox_core::Stdin;
///
/// let lines = Stdin::from_bytes("b\na\n");
/// # assert!(matches!(lines, Stdin::Reader(_)));
/// ```
#[derive(Default)]
#[non_exhaustive]
pub enum Stdin {
    /// Empty.
    #[default]
    Null,
    /// Written through a [`StdinWriter`]: see [`crate::Execution::take_stdin`].
    Piped,
    /// Read to its end, or until the program ends, as fast as the program reads.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

impl Stdin {
    /// Standard input from a reader.
    pub fn from_reader(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self::Reader(Box::new(reader))
    }

    /// Standard input of these bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::from_reader(io::Cursor::new(bytes.into()))
    }

    /// The reader for the backend, and the writer for the caller.
    pub(crate) fn open(
        self,
    ) -> (
        Option<Box<dyn AsyncRead + Send + Unpin>>,
        Option<StdinWriter>,
    ) {
        match self {
            Self::Null => (None, None),
            Self::Reader(reader) => (Some(reader), None),
            Self::Piped => {
                let (writer, reader) = tokio::io::duplex(BUFFER);
                (Some(Box::new(reader)), Some(StdinWriter(writer)))
            }
        }
    }

    /// The reader for the backend, for executions without a writer.
    pub(crate) fn into_reader(self) -> Result<Option<Box<dyn AsyncRead + Send + Unpin>>> {
        match self {
            Self::Null => Ok(None),
            Self::Reader(reader) => Ok(Some(reader)),
            Self::Piped => {
                let context = "Stdin::Piped needs a writer, which only SandboxHandle::start gives";
                Err(Error::new(ErrorKind::InvalidRequest, "execute", context)
                    .with_fix("use Stdin::from_reader, or start"))
            }
        }
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Piped => "Piped",
            Self::Reader(_) => "Reader",
        })
    }
}

/// Writes the standard input of an execution that was started with [`Stdin::Piped`].
///
/// Writing waits while the program does not read and 64 KiB are buffered here. After the end of the
/// execution it fails with [`io::ErrorKind::BrokenPipe`]. `shutdown` and dropping the writer end the
/// input, not the execution.
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
