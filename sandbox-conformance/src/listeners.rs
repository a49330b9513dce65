//! Listeners on the host that answer and count messages of the probe program.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket, UnixDatagram, UnixListener};
use tokio::task::JoinHandle;

use crate::probe::ProbeError;
use crate::program::Call;

/// The prefixes of the probe program's messages. Other messages to the same port do not count.
const MESSAGE_PREFIXES: [&[u8]; 2] = [b"probe-", b"unix"];

/// A listener on the host; dropping it closes it.
#[derive(Debug)]
pub struct Listener {
    addresses: Vec<SocketAddr>,
    hits: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    /// Listens with TCP on every IPv4 address of the host.
    ///
    /// # Errors
    ///
    /// If the host refuses.
    pub async fn tcp4() -> Result<Self, ProbeError> {
        Self::tcp(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()).await
    }

    /// Listens with TCP on every IPv6 address of the host.
    ///
    /// # Errors
    ///
    /// If the host refuses, for example because it has no IPv6.
    pub async fn tcp6() -> Result<Self, ProbeError> {
        Self::tcp(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()).await
    }

    async fn tcp(every: IpAddr, loopback: IpAddr) -> Result<Self, ProbeError> {
        let listener = TcpListener::bind((every, 0)).await?;
        let port = listener.local_addr()?.port();
        let hits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&hits);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&counter)));
            }
        });
        Ok(Self {
            addresses: addresses(loopback, port),
            hits,
            task,
        })
    }

    /// Listens with UDP on every IPv4 address of the host.
    ///
    /// # Errors
    ///
    /// If the host refuses.
    pub async fn udp4() -> Result<Self, ProbeError> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        let port = socket.local_addr()?.port();
        let hits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&hits);
        let task = tokio::spawn(async move {
            let mut message = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut message).await {
                if has_prefix(&message[..length]) {
                    counter.fetch_add(1, Ordering::SeqCst);
                    // The sender may have ended.
                    let _ = socket.send_to(b"here", from).await;
                }
            }
        });
        Ok(Self {
            addresses: addresses(Ipv4Addr::LOCALHOST.into(), port),
            hits,
            task,
        })
    }

    /// Listens on a Unix socket at a path that every user can access.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created.
    pub fn unix(path: &Path) -> Result<Self, ProbeError> {
        use std::os::unix::fs::PermissionsExt;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
        Ok(Self::of_unix(listener))
    }

    /// Listens on a Unix socket with an abstract name.
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn unix_abstract(name: &str) -> Result<Self, ProbeError> {
        let address = UnixAddress::from_abstract_name(name)?;
        let listener = std::os::unix::net::UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::of_unix(UnixListener::from_std(listener)?))
    }

    /// Counts datagrams at a path that every user can access, without answering.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created.
    pub fn unix_datagrams(path: &Path) -> Result<Self, ProbeError> {
        use std::os::unix::fs::PermissionsExt;
        let socket = UnixDatagram::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
        let hits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&hits);
        let task = tokio::spawn(async move {
            let mut message = [0; 512];
            while let Ok(length) = socket.recv(&mut message).await {
                if has_prefix(&message[..length]) {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Ok(Self {
            addresses: Vec::new(),
            hits,
            task,
        })
    }

    /// Waits for the first message.
    ///
    /// # Errors
    ///
    /// If none arrives within five seconds.
    pub async fn first_hit(&self) -> Result<(), ProbeError> {
        for _ in 0..500 {
            if self.hits() > 0 {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Err(ProbeError::new("the host's own message did not arrive"))
    }

    fn of_unix(listener: UnixListener) -> Self {
        let hits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&hits);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&counter)));
            }
        });
        Self {
            addresses: Vec::new(),
            hits,
            task,
        }
    }

    /// The number of messages from the probe program.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::SeqCst)
    }

    /// A call of this subcommand with every address of this listener.
    #[must_use]
    pub fn call(&self, subcommand: &str, token: &str) -> Call {
        self.addresses
            .iter()
            .fold(Call::new([subcommand, token]), |call, address| {
                call.and(format_address(address))
            })
    }
}

fn has_prefix(message: &[u8]) -> bool {
    MESSAGE_PREFIXES
        .iter()
        .any(|greeting| message.starts_with(greeting))
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, hits: Arc<AtomicU64>) {
    let mut message = [0; 512];
    if let Ok(length) = stream.read(&mut message).await
        && has_prefix(&message[..length])
    {
        hits.fetch_add(1, Ordering::SeqCst);
        // The sender may have ended.
        let _ = stream.write_all(b"here").await;
    }
}

/// The loopback address and the host's other addresses. Containers may reach the host by only one
/// of them.
fn addresses(loopback: IpAddr, port: u16) -> Vec<SocketAddr> {
    let others = crate::addresses::of_host(loopback.is_ipv4());
    let every = std::iter::once(loopback).chain(others);
    every
        .map(|address| SocketAddr::new(address, port))
        .collect()
}

fn format_address(address: &SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => format!("{ip}/{}", address.port()),
        IpAddr::V6(ip) => format!("{:032x}/{}", ip.to_bits(), address.port()),
    }
}
