//! A server on this host's loopback for connections that egress rules allow or deny.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::host_leftovers::TOKEN;

/// How long a client may take to send its message.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a message.
const MAX_MESSAGE: usize = 4096;

/// The messages that have arrived in this process.
static RECEIVED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The server of this process, once a probe needed it. Its ports are part of policies, so that
/// equal ones share a sandbox.
static SERVER: LazyLock<EgressServer> =
    LazyLock::new(|| EgressServer::start().expect("ports of this host's loopback"));

/// Ports of this host's loopback, for one kind of rule each.
#[derive(Debug)]
pub struct EgressServer {
    /// For a rule that allows everything, also private addresses. The UDP port has the same number.
    pub open: u16,
    /// For a rule that does not allow private addresses.
    pub public: u16,
    /// For a rule of another name.
    pub of_another: u16,
    /// For a rule at level `name`.
    pub named: u16,
}

impl EgressServer {
    /// The server of this process.
    ///
    /// # Panics
    ///
    /// If this host's loopback has no free port.
    #[must_use]
    pub fn get() -> &'static Self {
        &SERVER
    }

    /// Whether a message that contains this text has arrived.
    #[must_use]
    pub fn has_received(text: &str) -> bool {
        let received = RECEIVED.lock().unwrap_or_else(PoisonError::into_inner);
        received.iter().any(|message| contains(message, text))
    }

    fn start() -> io::Result<Self> {
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let open = datagrams.local_addr()?.port();
        std::thread::Builder::new().spawn(move || answer_datagrams(&datagrams))?;
        Ok(Self {
            open: listen(open)?,
            public: listen(0)?,
            of_another: listen(0)?,
            named: listen(0)?,
        })
    }
}

/// Serves this port, or a free one for 0, until the process ends.
fn listen(port: u16) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let port = listener.local_addr()?.port();
    let serve = move || {
        for peer in listener.incoming().flatten() {
            // Without a thread the client sees a reset, which no control takes for success.
            let _ = std::thread::Builder::new().spawn(move || answer(peer));
        }
    };
    std::thread::Builder::new().spawn(serve)?;
    Ok(port)
}

/// Reads a message of the suite, and answers it. A client that leaves early needs no answer.
fn answer(mut peer: TcpStream) -> io::Result<()> {
    peer.set_read_timeout(Some(PATIENCE))?;
    let mut message = Vec::new();
    let mut piece = [0; 512];
    while !is_of_suite(&message) && message.len() < MAX_MESSAGE {
        match peer.read(&mut piece)? {
            0 => break,
            length => message.extend_from_slice(&piece[..length]),
        }
    }
    if keep(&message) {
        peer.write_all(b"here")?;
    }
    Ok(())
}

fn answer_datagrams(socket: &UdpSocket) {
    let mut message = [0; MAX_MESSAGE];
    // An error is about an earlier answer, whose receiver has left.
    while let Ok((length, from)) = socket.recv_from(&mut message) {
        if keep(&message[..length]) {
            let _ = socket.send_to(b"here", from);
        }
    }
}

/// Keeps a message of the suite. Returns whether it is one.
fn keep(message: &[u8]) -> bool {
    let ours = is_of_suite(message);
    if ours {
        let mut received = RECEIVED.lock().unwrap_or_else(PoisonError::into_inner);
        received.push(message.to_vec());
    }
    ours
}

/// A message contains a probe's token with a word behind it, and a dot at its end.
fn is_of_suite(message: &[u8]) -> bool {
    message
        .windows(TOKEN.len())
        .position(|window| window == TOKEN.as_bytes())
        .is_some_and(|start| message[start..].contains(&b'.'))
}

fn contains(message: &[u8], text: &str) -> bool {
    message
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}
