//! Pipes between a task and a blocking thread, which reads and writes tar archives.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Size of a piece in bytes.
const PIECE: usize = 64 * 1024;

/// Number of buffered pieces.
const CAPACITY: usize = 8;

/// A writer for a thread, and a stream of the written bytes. Dropping the stream makes writes fail.
pub(super) fn writer() -> (
    PipeWriter,
    impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) {
    let (sender, receiver) = channel(CAPACITY);
    let writer = PipeWriter {
        sender,
        piece: BytesMut::with_capacity(PIECE),
    };
    (writer, stream(receiver))
}

fn stream<T: Send + 'static>(receiver: Receiver<T>) -> impl Stream<Item = T> + Send + 'static {
    futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|item| (item, receiver))
    })
}

/// A reader for a thread, of a stream's bytes. Requires a runtime; dropping the reader stops the
/// stream.
pub(super) fn reader<E>(stream: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> PipeReader
where
    E: std::error::Error + Send + Sync + 'static,
{
    let (sender, receiver) = channel(CAPACITY);
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(item) = stream.next().await {
            if sender.send(item.map_err(io::Error::other)).await.is_err() {
                break;
            }
        }
    });
    PipeReader {
        receiver,
        rest: Bytes::new(),
    }
}

/// Writes into a stream. The data is complete only after [`PipeWriter::finish`].
pub(super) struct PipeWriter {
    sender: Sender<io::Result<Bytes>>,
    piece: BytesMut,
}

impl PipeWriter {
    fn send(&mut self, item: io::Result<Bytes>) -> io::Result<()> {
        let sent = self.sender.blocking_send(item);
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the reader was dropped"))
    }

    /// Ends the stream, with an error for its reader if `result` is one.
    pub(super) fn finish(mut self, result: io::Result<()>) {
        // A dropped reader has reported its own error.
        let _ = match result {
            Ok(()) => self.flush(),
            Err(error) => self.send(Err(error)),
        };
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..count]);
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, BytesMut::with_capacity(PIECE));
        self.send(Ok(piece.freeze()))
    }
}

/// Reads a stream's bytes.
pub(super) struct PipeReader {
    receiver: Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.rest = piece?,
            }
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.advance(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn bytes_arrive_in_order() {
        let bytes = (0..200_000_u32)
            .flat_map(u32::to_le_bytes)
            .collect::<Vec<_>>();
        let sent = bytes.clone();
        let (mut writer, stream) = writer();
        let writing = tokio::task::spawn_blocking(move || {
            let original = writer.write_all(&sent);
            writer.finish(original);
        });
        let mut reader = reader(stream);
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        assert_eq!(read.await.expect("reader").expect("bytes"), bytes);
        writing.await.expect("writer");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn error_reaches_the_reader_and_a_dropped_reader_fails_the_writer() {
        let (lost, stream) = writer();
        tokio::task::spawn_blocking(move || lost.finish(Err(io::Error::other("lost"))));
        let mut broken = reader(stream);
        let read = tokio::task::spawn_blocking(move || broken.read_to_end(&mut Vec::new()));
        let error = read.await.expect("reader").expect_err("error");
        assert!(error.to_string().contains("lost"), "{error}");

        let (mut writer, stream) = writer();
        drop(stream);
        let write = tokio::task::spawn_blocking(move || writer.write_all(&[0; PIECE * 20]));
        assert!(write.await.expect("writer").is_err());
    }
}
