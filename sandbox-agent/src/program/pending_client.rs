//! Somebody at the door who has not shown the key yet. No more is read than the messages that must show it.

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
    self, Attach, FailStep, Failure, HEADER_LEN, Header, Key, Kind, LinkEnd, ProtocolError,
    Received, Resume,
};

/// The longest message that is looked at.
const MAX_LENGTH: usize = HEADER_LEN + Resume::LEN;

/// Where somebody comes from who has not shown the key yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A process of the sandbox: code, unless the agent shares its process namespace with others. Also whoever is not known.
    Inside,
    /// A process that was started from outside, or is outside.
    Outside,
}

impl Origin {
    /// Where whoever connected to a socket comes from.
    pub(super) fn of(socket: &Fd, procfs: Option<&Procfs>) -> Self {
        let Ok(pid) = net::peer(socket) else {
            return Self::Inside;
        };
        // Code cannot be a process without a number, nor one without a parent.
        let outside = pid == Pid(0)
            || procfs.is_some_and(|procfs| matches!(has_parent(procfs, pid), Ok(false)));
        if outside { Self::Outside } else { Self::Inside }
    }
}

/// Somebody who has not shown the key yet.
#[derive(Debug)]
pub(super) struct PendingClient {
    socket: Fd,
    pub(super) origin: Origin,
    /// The link that was begun.
    link: Option<(Key, LinkEnd)>,
    bytes: [u8; MAX_LENGTH],
    count: usize,
    pub(super) deadline: MonotonicMicros,
}

/// Somebody who has shown what has to be shown.
#[derive(Debug)]
pub(super) enum AuthenticatedClient {
    /// A client, whose frames may cross a link.
    New { socket: Fd, link: Option<AgentLink> },
    /// A client whose stream broke; whether there is one is not known here.
    Resumed { socket: Fd, resume: Resume },
}

/// What an applicant has shown.
pub(super) enum HandshakeState {
    Incomplete,
    Authenticated,
    Resume(Resume),
    Disconnected,
    Invalid(Failure),
}

impl PendingClient {
    /// Somebody new, who may take until then.
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

    /// The socket's number.
    pub(super) fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// The visitor that it has proven to be.
    pub(super) fn into_new_client(self) -> AuthenticatedClient {
        let (socket, link) = self.into_socket();
        AuthenticatedClient::New { socket, link }
    }

    /// The same for one that comes back.
    pub(super) fn into_resumed_client(self, resume: Resume) -> AuthenticatedClient {
        AuthenticatedClient::Resumed {
            socket: self.socket,
            resume,
        }
    }

    /// Says why it is not served.
    pub(super) fn refuse(self, failure: &Failure) {
        let (socket, link) = self.into_socket();
        refuse(socket, link, failure);
    }

    fn into_socket(self) -> (Fd, Option<AgentLink>) {
        let link = self.link.map(|(secret, end)| AgentLink::new(secret, end));
        (self.socket, link)
    }

    /// Reads what is there.
    pub(super) fn read(&mut self, key: &Key) -> HandshakeState {
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

    /// What a message that is whole shows; `None` where more has to come.
    fn check_message(&mut self, key: &Key) -> Result<Option<HandshakeState>, ProtocolError> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        if self.count < HEADER_LEN + header.length.min(expected_length(header.kind)) {
            return Ok(None);
        }
        // Another version is named as such, however long its message is.
        let message = &self.bytes[HEADER_LEN..self.count];
        let exact = header.length == message.len();
        let state = match header.kind {
            Kind::Attach if Attach::decode(message)?.key == *key => {
                Some(HandshakeState::Authenticated)
            }
            Kind::Attach => Some(HandshakeState::Invalid(attach_failure("wrong key"))),
            Kind::Link => {
                let secret = protocol::Link::decode(message)?.secret;
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
            Kind::Attach => true,
            // A link carries no other.
            Kind::Link | Kind::Resume => self.link.is_none(),
            _ => false,
        };
        if expected && header.stream == 0 && !header.more {
            Ok(Some(header))
        } else {
            Err(ProtocolError::Unexpected("first message"))
        }
    }

    /// How much of the message is missing, as far as is known.
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
                // Nothing was sent that could be acknowledged.
                Received::Acknowledged(_) => {}
                Received::Close => return Err(ReadStop::Disconnected),
            }
        }
        Ok(count)
    }
}

/// Why nothing was read.
enum ReadStop {
    WouldBlock,
    Disconnected,
    Invalid(ProtocolError),
}

/// How much of a message of this kind is looked at.
fn expected_length(kind: Kind) -> usize {
    match kind {
        Kind::Attach => Attach::LEN,
        Kind::Link => protocol::Link::LEN,
        _ => Resume::LEN,
    }
}

/// Says why a client is not served. The socket is new: it takes the word, or nobody is there.
pub(super) fn refuse(socket: Fd, link: Option<AgentLink>, failure: &Failure) {
    let mut connection = Connection::from_socket(socket).with_link(link);
    connection
        .outgoing
        .message(0, Kind::Failed, &failure.encode());
    connection.finish();
    connection.send();
}

/// The failure of one more client than are served.
pub(super) fn too_many() -> Failure {
    attach_failure("too many clients")
}

/// The failure of a client that comes back to what is not there.
pub(super) fn unknown_link() -> Failure {
    attach_failure("no such link")
}

/// The failure of a client that has not shown the key in time.
pub(super) fn too_slow() -> Failure {
    attach_failure("no key within 3 s")
}

fn attach_failure(detail: &str) -> Failure {
    refusal(FailStep::Attach, detail)
}
