//! A way to the agent that a test cuts.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sandbox_core::{Error, ErrorKind};
use sandbox_host::{ByteStream, Connector, Unreachable};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Inwards,
    Outwards,
}

/// A relay between the host and an agent that listens by a name.
pub struct Way {
    pub name: String,
    /// After how many bytes of a direction the stream is cut; what has come of the last read goes on no further.
    cuts: Mutex<Vec<(Direction, usize)>>,
    /// Nobody gets through.
    pub shut: AtomicBool,
    /// How often somebody has come.
    pub opened: AtomicUsize,
    cut: Notify,
}

impl Way {
    /// To an agent of a name that nobody else has.
    pub fn new() -> Arc<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            name: format!("sandbox-host-way-{}-{count}", std::process::id()),
            cuts: Mutex::default(),
            shut: AtomicBool::new(false),
            opened: AtomicUsize::new(0),
            cut: Notify::new(),
        })
    }

    /// Cuts the stream that is there now, and each that follows, after so many more bytes of a direction, one after another.
    pub fn plan(&self, cuts: impl IntoIterator<Item = (Direction, usize)>) {
        let mut planned: Vec<_> = cuts.into_iter().collect();
        planned.reverse();
        *self.cuts.lock().unwrap() = planned;
    }

    /// How many planned cuts have not come.
    pub fn planned(&self) -> usize {
        self.cuts.lock().unwrap().len()
    }

    /// Cuts the stream that is there now.
    pub fn cut(&self) {
        self.cut.notify_waiters();
    }

    pub fn shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::Relaxed);
        if shut {
            self.cut();
        }
    }

    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// How many of these bytes go on, and whether the stream is cut behind them.
    fn pass(&self, direction: Direction, count: usize) -> (usize, bool) {
        let mut cuts = self.cuts.lock().unwrap();
        match cuts.last_mut() {
            Some((planned, left)) if *planned == direction => {
                if count < *left {
                    *left -= count;
                    return (count, false);
                }
                let passed = *left;
                cuts.pop();
                (passed, true)
            }
            _ => (count, false),
        }
    }

    /// Carries bytes until one side ends, or the plan cuts them.
    async fn carry(
        &self,
        direction: Direction,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut bytes).await?;
            let (passed, cut) = self.pass(direction, count);
            to.write_all(&bytes[..passed]).await?;
            if cut || count == 0 {
                return Ok(());
            }
        }
    }

    async fn relay(
        self: Arc<Self>,
        host: tokio::io::DuplexStream,
        agent: UnixStream,
    ) -> std::io::Result<()> {
        let (mut from_host, mut to_host) = tokio::io::split(host);
        let (mut from_agent, mut to_agent) = agent.into_split();
        let inwards = self.carry(Direction::Inwards, &mut from_host, &mut to_agent);
        let outwards = self.carry(Direction::Outwards, &mut from_agent, &mut to_host);
        tokio::select! {
            ended = inwards => ended,
            ended = outwards => ended,
            () = self.cut.notified() => Ok(()),
        }
    }

    async fn connect(&self) -> std::io::Result<UnixStream> {
        let address = SocketAddr::from_abstract_name(&self.name)?;
        let begin = Instant::now();
        loop {
            match std::os::unix::net::UnixStream::connect_addr(&address) {
                Ok(socket) => {
                    socket.set_nonblocking(true)?;
                    return UnixStream::from_std(socket);
                }
                // An agent that was just started.
                Err(_) if self.opened() == 1 && begin.elapsed() < Duration::from_secs(10) => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The way as a backend's.
pub struct Through(pub Arc<Way>);

#[async_trait]
impl Connector for Through {
    async fn open(&self) -> Result<Box<dyn ByteStream>, Unreachable> {
        let way = &self.0;
        way.opened.fetch_add(1, Ordering::Relaxed);
        let now = |context: String| {
            Unreachable::Now(Error::new(ErrorKind::Io, "reach the agent", context))
        };
        if way.shut.load(Ordering::Relaxed) {
            return Err(now("the way is shut".into()));
        }
        let agent = way
            .connect()
            .await
            .map_err(|error| now(error.to_string()))?;
        let (host, theirs) = tokio::io::duplex(256 * 1024);
        // How a relay ends is what its two ends see.
        tokio::spawn(Arc::clone(way).relay(theirs, agent));
        Ok(Box::new(host))
    }
}
