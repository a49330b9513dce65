//! A client that has connected and not yet authenticated. Only the messages that authenticate it
//! are read.

use crate::runtime::{Descriptor, Errno, Fd, Pid, RawFd, io, net};

use super::{
    agent_link::AgentLink,
    connection::Connection,
    exec::has_parent,
    failures::{protocol_failure, refusal},
    poll_set::MonotonicMicros,
    procfs::Procfs,
};
use crate::protocol::{
    self, Attach, ClientKey, FailStep, Failure, FrameKind, HEADER_LEN, Header, LinkEnd,
    ProtocolError, Received, Resume,
};

/// The longest message that is read.
const MAX_LENGTH: usize = HEADER_LEN + Resume::LEN;

/// Where a pending client's process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Inside the sandbox, or unknown. It is sandboxed code, unless the agent shares its PID
    /// namespace with other processes.
    Inside,
    /// Outside the sandbox, or started from outside (`docker exec`).
    Outside,
}

impl Origin {
    /// The origin of the process that connected to a socket.
    pub(super) fn of(socket: &Fd, procfs: Option<&Procfs>) -> Self {
        let Ok(pid) = net::peer(socket) else {
            return Self::Inside;
        };
        // Every process of the code has a PID here, and a parent here.
        let outside = pid == Pid(0)
            || procfs.is_some_and(|procfs| matches!(has_parent(procfs, pid), Ok(false)));
        if outside { Self::Outside } else { Self::Inside }
    }
}

/// A client that has not yet authenticated.
#[derive(Debug)]
pub(super) struct PendingClient {
    socket: Fd,
    pub(super) origin: Origin,
    /// The link that the client has begun: its secret, and its state.
    link: Option<(ClientKey, LinkEnd)>,
    bytes: [u8; MAX_LENGTH],
    count: usize,
    pub(super) deadline: MonotonicMicros,
}

/// A client that has authenticated.
#[derive(Debug)]
pub(super) enum AuthenticatedClient {
    /// A new client, perhaps over a link.
    New { socket: Fd, link: Option<AgentLink> },
    /// A client that resumes a link. Whether the link exists is not checked yet.
    Resumed { socket: Fd, resume: Resume },
}

/// The state of the handshake.
pub(super) enum HandshakeState {
    Incomplete,
    Authenticated,
    Resume(Resume),
    Disconnected,
    Invalid(Failure),
}

impl PendingClient {
    /// A client that has to authenticate before `deadline`.
    pub(super) fn new(socket: Fd, origin: Origin, deadline: MonotonicMicros) -> Self {
        Self {
            socket,
            origin,
            link: None,
            bytes: [0; MAX_LENGTH],
            count: 0,
            deadline,
        }
    }

    /// The socket's descriptor number.
    pub(super) fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// The new client that it has proven to be.
    pub(super) fn into_new_client(self) -> AuthenticatedClient {
        let (socket, link) = self.into_socket();
        AuthenticatedClient::New { socket, link }
    }

    /// The returning client that it has proven to be.
    pub(super) fn into_resumed_client(self, resume: Resume) -> AuthenticatedClient {
        AuthenticatedClient::Resumed {
            socket: self.socket,
            resume,
        }
    }

    /// Sends `failure` and disconnects.
    pub(super) fn refuse(self, failure: &Failure) {
        let (socket, link) = self.into_socket();
        refuse(socket, link, failure);
    }

    fn into_socket(self) -> (Fd, Option<AgentLink>) {
        let link = self.link.map(|(secret, end)| AgentLink::new(secret, end));
        (self.socket, link)
    }

    /// Reads the available bytes.
    pub(super) fn read(&mut self, key: &ClientKey) -> HandshakeState {
        loop {
            match self.check_message(key) {
                Ok(Some(state)) => return state,
                Ok(None) => {}
                Err(error) => return HandshakeState::Invalid(protocol_failure(error)),
            }
            match self.read_some() {
                Ok(0) => return HandshakeState::Disconnected,
                Ok(_) => {}
                Err(ReadStop::WouldBlock) => return HandshakeState::Incomplete,
                Err(ReadStop::Disconnected) => return HandshakeState::Disconnected,
                Err(ReadStop::Invalid(error)) => {
                    return HandshakeState::Invalid(protocol_failure(error));
                }
            }
        }
    }

    /// Evaluates the message once it is complete; `None` until then, and after a `BeginLink`.
    fn check_message(&mut self, key: &ClientKey) -> Result<Option<HandshakeState>, ProtocolError> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        if self.count < HEADER_LEN + header.length.min(expected_length(header.kind)) {
            return Ok(None);
        }
        // A wrong version is reported first, whatever the message's length.
        let message = &self.bytes[HEADER_LEN..self.count];
        let exact = header.length == message.len();
        let state = match header.kind {
            FrameKind::Attach if Attach::decode(message)?.key == *key => {
                Some(HandshakeState::Authenticated)
            }
            FrameKind::Attach => Some(HandshakeState::Invalid(attach_failure("wrong key"))),
            FrameKind::Link => {
                let secret = protocol::BeginLink::decode(message)?.secret;
                self.link = Some((secret, LinkEnd::new()));
                self.count = 0;
                None
            }
            _ => Some(HandshakeState::Resume(Resume::decode(message)?)),
        };
        if exact {
            Ok(state)
        } else {
            Err(ProtocolError::TrailingBytes)
        }
    }

    fn header(&self) -> Result<Option<Header>, ProtocolError> {
        if self.count < HEADER_LEN {
            return Ok(None);
        }
        let bytes = self.bytes.first_chunk().ok_or(ProtocolError::Truncated)?;
        let header = Header::decode(bytes)?;
        let expected = match header.kind {
            FrameKind::Attach => true,
            // A link inside a link is a violation.
            FrameKind::Link | FrameKind::Resume => self.link.is_none(),
            _ => false,
        };
        if expected && header.stream == 0 && !header.more {
            Ok(Some(header))
        } else {
            Err(ProtocolError::Unexpected("first message"))
        }
    }

    /// How many more bytes of the message can be read, as far as is known.
    fn missing(&self) -> Result<usize, ProtocolError> {
        let wanted = match self.header()? {
            None => HEADER_LEN,
            Some(header) => HEADER_LEN + header.length.min(expected_length(header.kind)),
        };
        Ok(wanted - self.count)
    }

    fn read_some(&mut self) -> Result<usize, ReadStop> {
        let missing = self.missing().map_err(ReadStop::Invalid)?;
        let mut bytes = [0; MAX_LENGTH];
        let limit = match &self.link {
            None => missing,
            Some((_, end)) => end.piece_limit(missing),
        };
        let count = match io::read(&self.socket, &mut bytes[..limit.min(MAX_LENGTH)]) {
            Ok(count) => count,
            Err(Errno::EAGAIN) => return Err(ReadStop::WouldBlock),
            Err(_) => return Err(ReadStop::Disconnected),
        };
        let mut read = &bytes[..count];
        let Some((_, end)) = &mut self.link else {
            self.bytes[self.count..self.count + count].copy_from_slice(read);
            self.count += count;
            return Ok(count);
        };
        while let Some(received) = end.receive(&mut read).map_err(ReadStop::Invalid)? {
            match received {
                Received::Data(data) => {
                    self.bytes[self.count..self.count + data.len()].copy_from_slice(data);
                    self.count += data.len();
                }
                // Nothing was sent that the client could acknowledge.
                Received::Acknowledged(_) => {}
                Received::Close => return Err(ReadStop::Disconnected),
            }
        }
        Ok(count)
    }
}

/// Why a read gave no bytes.
enum ReadStop {
    WouldBlock,
    Disconnected,
    Invalid(ProtocolError),
}

/// How much of a message of this kind is read.
fn expected_length(kind: FrameKind) -> usize {
    match kind {
        FrameKind::Attach => Attach::LEN,
        FrameKind::Link => protocol::BeginLink::LEN,
        _ => Resume::LEN,
    }
}

/// Sends `failure` to a client and disconnects it. A new socket has room for the message.
pub(super) fn refuse(socket: Fd, link: Option<AgentLink>, failure: &Failure) {
    let mut connection = Connection::from_socket(socket).with_link(link);
    connection
        .outgoing
        .message(0, FrameKind::Failed, &failure.encode());
    connection.finish();
    connection.send();
}

/// The failure for one client too many.
pub(super) fn too_many() -> Failure {
    attach_failure("too many clients")
}

/// The failure for an unknown link.
pub(super) fn unknown_link() -> Failure {
    attach_failure("no such link")
}

/// The failure for a client that has not authenticated in time.
pub(super) fn too_slow() -> Failure {
    attach_failure("no key within 3 s")
}

fn attach_failure(detail: &str) -> Failure {
    refusal(FailStep::Attach, detail)
}
