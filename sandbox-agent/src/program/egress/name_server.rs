//! The sockets of the name server: datagrams, and connections for clients that prefer them.

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Fd, RawFd, io,
    net::{self, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM},
    socket,
};

use super::{
    dns::{self, Directory, MAX_QUESTION},
    listeners::bound,
};
use crate::{
    program::poll_set::{MonotonicMicros, POLLIN, PollSet, after, now},
    protocol::NAME_SERVER,
};

const PORT: u16 = 53;

/// How many datagrams to answer before other events are handled.
const MAX_DATAGRAMS: usize = 64;

/// The most clients with a connection.
const MAX_CLIENTS: usize = 16;

/// How long a client may keep its connection, in milliseconds.
const CLIENT_TIMEOUT_MS: u64 = 10_000;

/// Which socket is ready.
#[derive(Debug, Clone, Copy)]
pub(in crate::program) enum ServerSocket {
    Datagrams,
    Listener,
    Client(RawFd),
}

#[derive(Debug)]
pub(super) struct NameServer {
    datagrams: Fd,
    listener: Fd,
    clients: Vec<DnsClient>,
}

#[derive(Debug)]
struct DnsClient {
    socket: Fd,
    received: Vec<u8>,
    until: MonotonicMicros,
}

impl NameServer {
    /// Listens on the server's address.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` without a route, `EACCES` without the right to low ports.
    pub(super) fn new() -> Result<Self, Errno> {
        let datagrams = bound(NAME_SERVER.into(), PORT, SOCK_DGRAM)?;
        let listener = bound(NAME_SERVER.into(), PORT, SOCK_STREAM)?;
        net::listen(&listener, MAX_CLIENTS as i32)?;
        Ok(Self {
            datagrams,
            listener,
            clients: Vec::new(),
        })
    }

    pub(super) fn register<T: Copy>(
        &self,
        set: &mut PollSet<T>,
        token: impl Fn(ServerSocket) -> T,
    ) {
        set.add(
            self.datagrams.as_raw(),
            POLLIN,
            token(ServerSocket::Datagrams),
        );
        if self.clients.len() < MAX_CLIENTS {
            set.add(
                self.listener.as_raw(),
                POLLIN,
                token(ServerSocket::Listener),
            );
        }
        for client in &self.clients {
            let raw = client.socket.as_raw();
            set.add(raw, POLLIN, token(ServerSocket::Client(raw)));
        }
    }

    /// When a client's time is over.
    pub(super) fn next_moment(&self) -> Option<MonotonicMicros> {
        self.clients.iter().map(|client| client.until).min()
    }

    pub(super) fn tick(&mut self, now: MonotonicMicros) {
        self.clients.retain(|client| client.until > now);
    }

    /// Answers what has arrived.
    pub(super) fn ready(&mut self, place: ServerSocket, directory: &mut impl Directory) {
        match place {
            ServerSocket::Datagrams => self.answer_datagrams(directory),
            ServerSocket::Listener => {
                // An error means that the client has left, or that descriptors are out.
                if let Ok(socket) = net::accept(&self.listener, SOCK_CLOEXEC | SOCK_NONBLOCK) {
                    self.clients.push(DnsClient {
                        socket,
                        received: Vec::new(),
                        until: after(now(), CLIENT_TIMEOUT_MS),
                    });
                }
            }
            ServerSocket::Client(raw) => {
                self.clients
                    .retain_mut(|client| client.socket.as_raw() != raw || client.serve(directory));
            }
        }
    }

    fn answer_datagrams(&self, directory: &mut impl Directory) {
        let mut question = [0; MAX_QUESTION];
        for _ in 0..MAX_DATAGRAMS {
            let (count, sender) = match socket::receive_from(&self.datagrams, &mut question) {
                Ok(received) => received,
                Err(Errno::EAGAIN) => return,
                // An earlier answer had no receiver.
                Err(_) => continue,
            };
            if let Some(answer) = dns::answer(&question[..count], directory) {
                // Without room for the answer, the client asks again.
                let _ = socket::send_to(&self.datagrams, &answer, &sender);
            }
        }
    }
}

impl DnsClient {
    /// Answers complete questions. Returns whether the client stays.
    fn serve(&mut self, directory: &mut impl Directory) -> bool {
        let mut bytes = [0; 512];
        match io::read(&self.socket, &mut bytes) {
            Ok(count) if count > 0 => self.received.extend_from_slice(&bytes[..count]),
            Err(Errno::EAGAIN) => return true,
            Ok(_) | Err(_) => return false,
        }
        while let Some(length) = self.received.first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if length > MAX_QUESTION {
                return false;
            }
            let Some(question) = self.received.get(2..2 + length) else {
                return true;
            };
            let Some(answer) = dns::answer(question, directory) else {
                return false;
            };
            let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
            // A client that does not read its answers loses its connection.
            if io::write(&self.socket, &framed) != Ok(framed.len()) {
                return false;
            }
            self.received.drain(..2 + length);
        }
        true
    }
}
