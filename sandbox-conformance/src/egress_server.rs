//! A server on this host's loopback for connections that egress rules allow or deny.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio_rustls::rustls::{ServerConnection, StreamOwned};

use crate::host_leftovers::TOKEN;
use crate::name_server::ANOTHER_ADDRESS;

pub(crate) mod certificate;

/// How long a client may take to send its message.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a message.
const MAX_MESSAGE: usize = 4096;

/// A header of requests to the port for level `name`: the server leads the client there.
pub const REDIRECT: &str = "X-Redirect: ";

/// The begin of a message that the server answers when the client has ended its side.
pub const UNTIL_END: &str = "until-end-";

/// The messages that have arrived in this process.
static RECEIVED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Those of them that arrived at [`ANOTHER_ADDRESS`].
static RECEIVED_AT_ANOTHER: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The server of this process, once a probe needed it. Its ports are part of policies, so that
/// equal ones share a sandbox.
static SERVER: LazyLock<EgressServer> =
    LazyLock::new(|| EgressServer::start().expect("ports of this host's loopback"));

/// Ports of this host's loopback, for one kind of rule each.
#[derive(Debug)]
pub struct EgressServer {
    /// For a rule that allows everything, also private addresses. The UDP port has the same number,
    /// and so has that of [`ANOTHER_ADDRESS`].
    pub open: u16,
    /// The same, for connections with many messages.
    pub held: u16,
    /// For a rule that does not allow private addresses.
    pub public: u16,
    /// For a rule of another name.
    pub of_another: u16,
    /// For a rule at level `name`.
    pub named: u16,
    /// For a rule at level `http`. It answers each request, and the others one message.
    pub read: u16,
    /// The same with TLS.
    pub secure: u16,
    /// The same as `open` at every address of this host.
    pub everywhere: u16,
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
        Self::count(text) > 0
    }

    /// How many messages with this text have arrived.
    #[must_use]
    pub fn count(text: &str) -> usize {
        let received = RECEIVED.lock().unwrap_or_else(PoisonError::into_inner);
        let with_text = received.iter().filter(|message| contains(message, text));
        with_text.count()
    }

    /// The messages with this text that have arrived.
    #[must_use]
    pub fn messages(text: &str) -> Vec<String> {
        let received = RECEIVED.lock().unwrap_or_else(PoisonError::into_inner);
        let with_text = received.iter().filter(|message| contains(message, text));
        with_text
            .map(|message| String::from_utf8_lossy(message).into_owned())
            .collect()
    }

    /// Whether a message that contains this text has arrived at [`ANOTHER_ADDRESS`].
    #[must_use]
    pub fn has_received_at_another(text: &str) -> bool {
        let received = RECEIVED_AT_ANOTHER
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        received.iter().any(|message| contains(message, text))
    }

    fn start() -> io::Result<Self> {
        let (listener, another, datagrams) = same_port()?;
        std::thread::Builder::new().spawn(move || answer_datagrams(&datagrams))?;
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        Ok(Self {
            open: {
                serve(another, answer_at_another)?;
                serve(listener, answer)?
            },
            held: serve(listen()?, answer_each)?,
            public: serve(listen()?, answer)?,
            of_another: serve(listen()?, answer)?,
            named: serve(listen()?, answer)?,
            read: serve(listen()?, answer_requests)?,
            secure: serve(listen()?, answer_with_tls)?,
            everywhere: serve(at_every_address()?, answer)?,
        })
    }
}

/// Sockets for TCP, for TCP at [`ANOTHER_ADDRESS`] and for UDP with one number, which other programs
/// may use in one of them.
fn same_port() -> io::Result<(TcpListener, TcpListener, UdpSocket)> {
    // Those in use, so that each of them is tried once.
    let mut others = Vec::new();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let another = TcpListener::bind((ANOTHER_ADDRESS, address.port()));
        match another.and_then(|another| Ok((another, UdpSocket::bind(address)?))) {
            Ok((another, datagrams)) => return Ok((listener, another, datagrams)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && others.len() < 100 => {
                others.push(listener);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A socket for both families; without IPv6, for one.
fn at_every_address() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
}

/// Serves this port until the process ends.
fn serve(listener: TcpListener, answer: fn(TcpStream) -> io::Result<()>) -> io::Result<u16> {
    let port = listener.local_addr()?.port();
    let accept = move || {
        for peer in listener.incoming().flatten() {
            // Without a thread the client sees a reset, which no control takes for success.
            let _ = std::thread::Builder::new().spawn(move || answer(peer));
        }
    };
    std::thread::Builder::new().spawn(accept)?;
    Ok(port)
}

/// Reads a message of the suite, and answers it. A client that leaves early needs no answer.
fn answer(mut peer: TcpStream) -> io::Result<()> {
    let message = read_message(&mut peer)?;
    if message.starts_with(UNTIL_END.as_bytes()) && peer.read(&mut [0])? != 0 {
        return Ok(());
    }
    if !keep(&message) {
        return Ok(());
    }
    let request = String::from_utf8_lossy(&message);
    match request.lines().find_map(|line| line.strip_prefix(REDIRECT)) {
        // The dot ends a marker.
        Some(there) => {
            let head = format!("HTTP/1.1 302 Found\r\nLocation: http://{there}.\r\n");
            peer.write_all(format!("{head}Content-Length: 0\r\n\r\n").as_bytes())
        }
        None => peer.write_all(b"here"),
    }
}

/// The same at [`ANOTHER_ADDRESS`].
fn answer_at_another(mut peer: TcpStream) -> io::Result<()> {
    let message = read_message(&mut peer)?;
    let mut received = RECEIVED_AT_ANOTHER
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    received.push(message);
    drop(received);
    peer.write_all(b"here")
}

/// Answers one message after the other.
fn answer_each(mut peer: TcpStream) -> io::Result<()> {
    while keep(&read_message(&mut peer)?) {
        peer.write_all(b"here")?;
    }
    Ok(())
}

/// Reads until the message is one of the suite.
fn read_message(peer: &mut TcpStream) -> io::Result<Vec<u8>> {
    peer.set_read_timeout(Some(PATIENCE))?;
    let mut message = Vec::new();
    let mut piece = [0; 512];
    while !is_of_suite(&message) && message.len() < MAX_MESSAGE {
        match peer.read(&mut piece)? {
            0 => break,
            length => message.extend_from_slice(&piece[..length]),
        }
    }
    Ok(message)
}

/// Answers requests, until one asks to close the connection.
fn answer_requests(peer: TcpStream) -> io::Result<()> {
    peer.set_read_timeout(Some(PATIENCE))?;
    let mut head = [0; 4];
    // The preface of HTTP/2, whose frames are one message.
    if peer.peek(&mut head)? == head.len() && &head == b"PRI " {
        return answer(peer);
    }
    answer_heads(peer)
}

/// The same with TLS.
fn answer_with_tls(peer: TcpStream) -> io::Result<()> {
    peer.set_read_timeout(Some(PATIENCE))?;
    let connection = ServerConnection::new(certificate::server()).map_err(io::Error::other)?;
    answer_heads(StreamOwned::new(connection, peer))
}

fn answer_heads(mut peer: impl Read + Write) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while peer.read(&mut byte)? == 1 && head.len() < MAX_MESSAGE {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        // A body belongs to its message.
        for _ in 0..body_length(&head).min(MAX_MESSAGE - head.len().min(MAX_MESSAGE)) {
            peer.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        if !keep(&head) {
            break;
        }
        peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere")?;
        if contains(&head.to_ascii_lowercase(), "connection: close") {
            break;
        }
        head.clear();
    }
    Ok(())
}

/// How many bytes follow a head.
fn body_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length:"));
    length.map_or(0, |length| length.trim().parse().unwrap_or(0))
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
