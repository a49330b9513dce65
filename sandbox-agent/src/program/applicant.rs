//! Somebody at the door who has not shown the key yet. No more is read than the messages that must show it.

use crate::runtime::{Descriptor, Errno, Fd, Pid, RawFd, io, net};

use super::{
    connection::Connection,
    exec::has_parent,
    failing::{breach, refusal},
    link::Link,
    polling::Moment,
    process_files::ProcessFiles,
};
use crate::protocol::{
    self, Attach, FailStep, Failure, HEADER_LEN, Header, Key, Kind, LinkEnd, ProtocolError,
    Received, Resume,
};

/// The longest message that is looked at.
const LONGEST: usize = HEADER_LEN + Resume::LEN;

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
    pub(super) fn of(socket: &Fd, files: Option<&ProcessFiles>) -> Self {
        let Ok(pid) = net::peer(socket) else {
            return Self::Inside;
        };
        // Code cannot be a process without a number, nor one without a parent.
        let outside =
            pid == Pid(0) || files.is_some_and(|files| matches!(has_parent(files, pid), Ok(false)));
        if outside { Self::Outside } else { Self::Inside }
    }
}

/// Somebody who has not shown the key yet.
#[derive(Debug)]
pub(super) struct Applicant {
    socket: Fd,
    pub(super) origin: Origin,
    /// The link that was begun.
    link: Option<(Key, LinkEnd)>,
    bytes: [u8; LONGEST],
    count: usize,
    pub(super) until: Moment,
}

/// Somebody who has shown what has to be shown.
#[derive(Debug)]
pub(super) enum Visitor {
    /// A client, whose frames may cross a link.
    Client { socket: Fd, link: Option<Link> },
    /// A client whose stream broke; whether there is one is not known here.
    Returning { socket: Fd, resume: Resume },
}

/// What an applicant has shown.
pub(super) enum Shown {
    NotAll,
    Key,
    Return(Resume),
    Gone,
    Wrong(Failure),
}

impl Applicant {
    /// Somebody new, who may take until then.
    pub(super) fn new(socket: Fd, origin: Origin, until: Moment) -> Self {
        Self {
            socket,
            origin,
            link: None,
            bytes: [0; LONGEST],
            count: 0,
            until,
        }
    }

    /// The socket's number.
    pub(super) fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// The visitor that it has proven to be.
    pub(super) fn into_client(self) -> Visitor {
        let (socket, link) = self.parts();
        Visitor::Client { socket, link }
    }

    /// The same for one that comes back.
    pub(super) fn into_returning(self, resume: Resume) -> Visitor {
        Visitor::Returning {
            socket: self.socket,
            resume,
        }
    }

    /// Says why it is not served.
    pub(super) fn refuse(self, failure: &Failure) {
        let (socket, link) = self.parts();
        refuse(socket, link, failure);
    }

    fn parts(self) -> (Fd, Option<Link>) {
        let link = self.link.map(|(secret, end)| Link::new(secret, end));
        (self.socket, link)
    }

    /// Reads what is there.
    pub(super) fn read(&mut self, key: &Key) -> Shown {
        loop {
            match self.look(key) {
                Ok(Some(shown)) => return shown,
                Ok(None) => {}
                Err(error) => return Shown::Wrong(breach(error)),
            }
            match self.read_some() {
                Ok(0) => return Shown::Gone,
                Ok(_) => {}
                Err(Stop::Later) => return Shown::NotAll,
                Err(Stop::Gone) => return Shown::Gone,
                Err(Stop::Wrong(error)) => return Shown::Wrong(breach(error)),
            }
        }
    }

    /// What a message that is whole shows; `None` where more has to come.
    fn look(&mut self, key: &Key) -> Result<Option<Shown>, ProtocolError> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        if self.count < HEADER_LEN + header.length.min(longest(header.kind)) {
            return Ok(None);
        }
        // Another version is named as such, however long its message is.
        let message = &self.bytes[HEADER_LEN..self.count];
        let exact = header.length == message.len();
        let shown = match header.kind {
            Kind::Attach if Attach::decode(message)?.key == *key => Some(Shown::Key),
            Kind::Attach => Some(Shown::Wrong(attach_failure("wrong key"))),
            Kind::Link => {
                let secret = protocol::Link::decode(message)?.secret;
                self.link = Some((secret, LinkEnd::new()));
                self.count = 0;
                None
            }
            _ => Some(Shown::Return(Resume::decode(message)?)),
        };
        if exact {
            Ok(shown)
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
            Some(header) => HEADER_LEN + header.length.min(longest(header.kind)),
        };
        Ok(wanted - self.count)
    }

    fn read_some(&mut self) -> Result<usize, Stop> {
        let missing = self.missing().map_err(Stop::Wrong)?;
        let mut bytes = [0; LONGEST];
        let limit = match &self.link {
            None => missing,
            Some((_, end)) => end.piece_limit(missing),
        };
        let count = match io::read(&self.socket, &mut bytes[..limit.min(LONGEST)]) {
            Ok(count) => count,
            Err(Errno::EAGAIN) => return Err(Stop::Later),
            Err(_) => return Err(Stop::Gone),
        };
        let mut read = &bytes[..count];
        let Some((_, end)) = &mut self.link else {
            self.bytes[self.count..self.count + count].copy_from_slice(read);
            self.count += count;
            return Ok(count);
        };
        while let Some(received) = end.receive(&mut read).map_err(Stop::Wrong)? {
            match received {
                Received::Data(data) => {
                    self.bytes[self.count..self.count + data.len()].copy_from_slice(data);
                    self.count += data.len();
                }
                // Nothing was sent that could be acknowledged.
                Received::Acknowledged(_) => {}
                Received::Close => return Err(Stop::Gone),
            }
        }
        Ok(count)
    }
}

/// Why nothing was read.
enum Stop {
    Later,
    Gone,
    Wrong(ProtocolError),
}

/// How much of a message of this kind is looked at.
fn longest(kind: Kind) -> usize {
    match kind {
        Kind::Attach => Attach::LEN,
        Kind::Link => protocol::Link::LEN,
        _ => Resume::LEN,
    }
}

/// Says why a client is not served. The socket is new: it takes the word, or nobody is there.
pub(super) fn refuse(socket: Fd, link: Option<Link>, failure: &Failure) {
    let mut connection = Connection::of_socket(socket).linked(link);
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
