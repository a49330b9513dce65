//! Copies between code and a server.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use super::limits::{IDLE_TIME_LIMIT, LARGE_BUFFER, MAX_LARGE_BUFFERS, SMALL_BUFFER};

/// How many large buffers a sandbox uses.
#[derive(Debug, Default)]
pub(super) struct Buffers(AtomicUsize);

/// What all connections of a sandbox have carried, in bytes.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

/// What was carried in one direction, by a connection and by all.
#[derive(Debug)]
pub(super) struct Count<'a> {
    own: AtomicU64,
    all: &'a AtomicU64,
}

impl<'a> Count<'a> {
    fn new(all: &'a AtomicU64) -> Self {
        let own = AtomicU64::new(0);
        Self { own, all }
    }

    pub(super) fn get(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }
}

/// What was carried so far, and when.
#[derive(Debug)]
pub(super) struct Counts<'a> {
    pub(super) sent: Count<'a>,
    pub(super) received: Count<'a>,
    begin: Instant,
    /// Milliseconds after `begin`.
    last: AtomicU64,
}

impl<'a> Counts<'a> {
    pub(super) fn new(all: &'a Traffic) -> Self {
        Self {
            sent: Count::new(&all.sent),
            received: Count::new(&all.received),
            begin: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    pub(super) fn add(&self, direction: &Count<'_>, bytes: usize) {
        for count in [&direction.own, direction.all] {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        let now = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Returns when nothing was carried for the time limit.
    pub(super) async fn idle(&self) {
        loop {
            let last = std::time::Duration::from_millis(self.last.load(Ordering::Relaxed));
            let end = self.begin + last + IDLE_TIME_LIMIT;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// How copying ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelayEnd {
    Finished,
    Reset,
    Idle,
}

/// Copies both ways until both ended. The end of one direction is passed on and leaves the other
/// open. `first` was read from code already.
pub(super) async fn relay(
    code: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut (impl AsyncRead + AsyncWrite + Unpin),
    first: Vec<u8>,
    counts: &Counts<'_>,
    buffers: &Buffers,
) -> RelayEnd {
    let (from_code, to_code) = tokio::io::split(code);
    let (from_server, to_server) = tokio::io::split(server);
    let sending = async {
        let mut to_server = to_server;
        if !first.is_empty() {
            write(&mut to_server, &first, counts, &counts.sent).await?;
        }
        drop(first);
        copy(from_code, to_server, counts, &counts.sent, buffers).await
    };
    let receiving = copy(from_server, to_code, counts, &counts.received, buffers);
    tokio::select! {
        both = async { tokio::try_join!(sending, receiving) } => match both {
            Ok(_) => RelayEnd::Finished,
            Err(_) => RelayEnd::Reset,
        },
        () = counts.idle() => RelayEnd::Idle,
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    counts: &Counts<'_>,
    direction: &Count<'_>,
    buffers: &Buffers,
) -> io::Result<()> {
    let mut buffer = Buffer::new(buffers);
    loop {
        let length = from.read(&mut buffer.bytes).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        write(&mut to, &buffer.bytes[..length], counts, direction).await?;
        buffer.grow_after(length);
    }
}

/// Writes all of the bytes. What was written is counted even if the rest never is.
async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    counts: &Counts<'_>,
    direction: &Count<'_>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = to.write(bytes).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        counts.add(direction, written);
        bytes = &bytes[written..];
    }
    to.flush().await
}

/// A buffer that is small until it was full once.
struct Buffer<'a> {
    bytes: Vec<u8>,
    buffers: &'a Buffers,
}

impl<'a> Buffer<'a> {
    fn new(buffers: &'a Buffers) -> Self {
        Self {
            bytes: vec![0; SMALL_BUFFER],
            buffers,
        }
    }

    fn grow_after(&mut self, length: usize) {
        if length < SMALL_BUFFER || self.is_large() {
            return;
        }
        let Buffers(used) = self.buffers;
        if used.fetch_add(1, Ordering::Relaxed) < MAX_LARGE_BUFFERS {
            self.bytes = vec![0; LARGE_BUFFER];
        } else {
            used.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn is_large(&self) -> bool {
        self.bytes.len() == LARGE_BUFFER
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if self.is_large() {
            self.buffers.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn each_end_is_passed_on_alone() {
        for code_ends_first in [true, false] {
            let (mut code, mut code_end) = duplex(64);
            let (mut server, mut server_end) = duplex(64);
            let (traffic, buffers) = (Traffic::default(), Buffers::default());
            let counts = Counts::new(&traffic);
            let relay = relay(
                &mut code_end,
                &mut server_end,
                b"first ".to_vec(),
                &counts,
                &buffers,
            );
            let peers = async {
                let (first, second) = match code_ends_first {
                    true => (&mut code, &mut server),
                    false => (&mut server, &mut code),
                };
                first.write_all(b"question").await.unwrap();
                first.shutdown().await.unwrap();
                let mut read = String::new();
                second.read_to_string(&mut read).await.unwrap();
                // The other direction lives on.
                second.write_all(b"answer").await.unwrap();
                second.shutdown().await.unwrap();
                let mut answer = String::new();
                first.read_to_string(&mut answer).await.unwrap();
                (read, answer)
            };
            let (end, (read, answer)) = tokio::join!(relay, peers);
            assert_eq!(end, RelayEnd::Finished);
            let expected = match code_ends_first {
                true => ("first question", "answer"),
                false => ("question", "first answer"),
            };
            assert_eq!((&*read, &*answer), expected);
            let sent = counts.sent.get();
            assert_eq!(traffic.sent.load(Ordering::Relaxed), sent);
            assert_eq!(sent, if code_ends_first { 14 } else { 12 });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_connection_ends_and_busy_one_lives() {
        let (mut code, mut code_end) = duplex(64);
        let (mut server, mut server_end) = duplex(64);
        let (traffic, buffers) = (Traffic::default(), Buffers::default());
        let counts = Counts::new(&traffic);
        let begin = Instant::now();
        let relay = relay(
            &mut code_end,
            &mut server_end,
            Vec::new(),
            &counts,
            &buffers,
        );
        let peers = async {
            for _ in 0..3 {
                tokio::time::sleep(IDLE_TIME_LIMIT / 2).await;
                code.write_all(b"x").await.unwrap();
                server.read_u8().await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let end = tokio::select! {
            end = relay => end,
            () = peers => unreachable!(),
        };
        assert_eq!(end, RelayEnd::Idle);
        let lived = begin.elapsed();
        assert!(
            lived > IDLE_TIME_LIMIT * 2 && lived < IDLE_TIME_LIMIT * 3,
            "{lived:?}"
        );
    }

    #[tokio::test]
    async fn large_buffers_are_counted_and_given_back() {
        let buffers = Buffers(AtomicUsize::new(MAX_LARGE_BUFFERS - 1));
        let mut first = Buffer::new(&buffers);
        first.grow_after(SMALL_BUFFER - 1);
        assert!(!first.is_large());
        first.grow_after(SMALL_BUFFER);
        assert!(first.is_large());
        let mut second = Buffer::new(&buffers);
        second.grow_after(SMALL_BUFFER);
        assert!(!second.is_large());
        drop(first);
        second.grow_after(SMALL_BUFFER);
        assert!(second.is_large());
        drop(second);
        assert_eq!(buffers.0.load(Ordering::Relaxed), MAX_LARGE_BUFFERS - 1);
    }
}
