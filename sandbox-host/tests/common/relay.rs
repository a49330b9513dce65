//! A relay between the host and the agent whose streams a test cuts.

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

/// The direction of bytes: to the agent, or to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Inwards,
    Outwards,
}

/// A relay between the host and an agent that listens on an abstract socket.
pub struct CuttableRelay {
    pub name: String,
    /// After how many bytes of a direction the stream is cut. Further bytes of that read are lost.
    cuts: Mutex<Vec<(Direction, usize)>>,
    /// Whether new streams are refused.
    pub shut: AtomicBool,
    /// How often the host has opened a stream.
    pub opened: AtomicUsize,
    cut: Notify,
}

impl CuttableRelay {
    /// A relay to an agent with a unique name.
    pub fn new() -> Arc<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            name: format!("sandbox-host-relay-{}-{count}", std::process::id()),
            cuts: Mutex::default(),
            shut: AtomicBool::new(false),
            opened: AtomicUsize::new(0),
            cut: Notify::new(),
        })
    }

    /// Cuts the current stream and each following one after the given number of bytes in a
    /// direction.
    pub fn plan(&self, cuts: impl IntoIterator<Item = (Direction, usize)>) {
        let mut planned: Vec<_> = cuts.into_iter().collect();
        planned.reverse();
        *self.cuts.lock().unwrap() = planned;
    }

    /// The number of planned cuts that have not happened.
    pub fn planned(&self) -> usize {
        self.cuts.lock().unwrap().len()
    }

    /// Cuts the current stream.
    pub fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// Cuts the current stream and refuses new ones, or accepts new ones again.
    pub fn shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::Relaxed);
        if shut {
            self.cut();
        }
    }

    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// How many of these bytes are forwarded, and whether the stream is cut after them.
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

    /// Forwards bytes until one side ends or a planned cut.
    async fn forward(
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
        let inwards = self.forward(Direction::Inwards, &mut from_host, &mut to_agent);
        let outwards = self.forward(Direction::Outwards, &mut from_agent, &mut to_host);
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
                // The agent was just started.
                Err(_) if self.opened() == 1 && begin.elapsed() < Duration::from_secs(10) => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Connects to the agent over the relay.
pub struct RelayConnector(pub Arc<CuttableRelay>);

#[async_trait]
impl Connector for RelayConnector {
    async fn open(&self) -> Result<Box<dyn ByteStream>, Unreachable> {
        let relay = &self.0;
        relay.opened.fetch_add(1, Ordering::Relaxed);
        let now = |context: String| {
            Unreachable::Now(Error::new(ErrorKind::Io, "reach the agent", context))
        };
        if relay.shut.load(Ordering::Relaxed) {
            return Err(now("the relay is shut".into()));
        }
        let agent = relay
            .connect()
            .await
            .map_err(|error| now(error.to_string()))?;
        let (host, relay_end) = tokio::io::duplex(256 * 1024);
        // Both ends see how the relay ends, so its result is not needed.
        tokio::spawn(Arc::clone(relay).relay(relay_end, agent));
        Ok(Box::new(host))
    }
}
