//! Where later clients come in: a listening socket, and those who have not shown the key yet.

use alloc::vec::Vec;

use sandbox_freestanding::{
    Descriptor, Errno, Fd, RawFd, Result, io,
    net::{self, SOCK_CLOEXEC, SOCK_NONBLOCK},
};

use super::{
    failing::refusal,
    outgoing::Outgoing,
    polling::{Moment, POLLIN, PollSet, after, now},
};
use crate::protocol::{
    Attach, FailStep, Failure, HEADER_LEN, Header, Key, Kind, MAX_CLIENTS, ProtocolError,
};

/// How long a client may take to show the key, milliseconds.
const KEY_TIME: u64 = 3000;

/// How many connections are accepted before others have their turn.
const TURN: usize = 16;

/// How long nobody is let in after the system had no room for it, milliseconds.
const PAUSE: u64 = 100;

/// What something happened to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The listening socket.
    Entrance,
    /// A socket of somebody who has not shown the key.
    Waiting(RawFd),
}

/// The listening socket.
#[derive(Debug)]
pub(super) struct Door {
    socket: Fd,
    key: Key,
    waiting: Vec<Applicant>,
    /// Until when nobody is let in.
    shut_until: Option<Moment>,
}

/// Somebody who has not shown the key yet. No more is read than the message that must have it.
#[derive(Debug)]
struct Applicant {
    socket: Fd,
    bytes: [u8; HEADER_LEN + Attach::LEN],
    count: usize,
    until: Moment,
}

/// What an applicant has shown.
enum Shown {
    NotAll,
    Key,
    Gone,
    Wrong(Failure),
}

impl Door {
    /// Lets in whom the listening `socket` accepts and who shows the key.
    ///
    /// # Errors
    ///
    /// `EBADF` when the descriptor is not open.
    pub(super) fn new(socket: Fd, key: Key) -> Result<Self> {
        io::set_nonblocking(&socket, true)?;
        io::set_close_on_exec(&socket, true)?;
        Ok(Self {
            socket,
            key,
            waiting: Vec::new(),
            shut_until: None,
        })
    }

    /// Adds what is to be waited for.
    pub(super) fn wants<T: Copy>(&self, set: &mut PollSet<T>, meaning: impl Fn(Place) -> T) {
        if self.shut_until.is_none() {
            set.add(self.socket.raw(), POLLIN, meaning(Place::Entrance));
        }
        for applicant in &self.waiting {
            let socket = applicant.socket.raw();
            set.add(socket, POLLIN, meaning(Place::Waiting(socket)));
        }
    }

    /// The next moment at which [`Door::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<Moment> {
        // Whoever came first has waited longest.
        let first = self.waiting.first().map(|applicant| applicant.until);
        first.into_iter().chain(self.shut_until).min()
    }

    /// Does what time asks for.
    pub(super) fn tick(&mut self, now: Moment) {
        self.shut_until.take_if(|until| *until <= now);
        self.waiting.retain(|applicant| {
            let waits = now < applicant.until;
            if !waits {
                refuse(&applicant.socket, &attach_failure("no key within 3 s"));
            }
            waits
        });
    }

    /// Something happened; gives the sockets of those who have shown the key.
    pub(super) fn happened(&mut self, place: Place) -> Vec<Fd> {
        match place {
            Place::Entrance => self.accept(),
            Place::Waiting(socket) => {
                let found = self
                    .waiting
                    .iter()
                    .position(|one| one.socket.raw() == socket);
                let mut proven = Vec::new();
                if let Some(place) = found {
                    // It keeps its place: the order is that of time.
                    let applicant = self.waiting.remove(place);
                    self.look_at(applicant, place, &mut proven);
                }
                proven
            }
        }
    }

    fn accept(&mut self) -> Vec<Fd> {
        let mut proven = Vec::new();
        for _ in 0..TURN {
            match net::accept(&self.socket, SOCK_CLOEXEC | SOCK_NONBLOCK) {
                Ok(socket) => {
                    if self.waiting.len() >= MAX_CLIENTS {
                        // Who has the key shows it at once: whoever waits longest is the least likely to have it.
                        let longest = self.waiting.remove(0);
                        refuse(&longest.socket, &too_many());
                    }
                    let applicant = Applicant {
                        socket,
                        bytes: [0; HEADER_LEN + Attach::LEN],
                        count: 0,
                        until: after(now(), KEY_TIME),
                    };
                    self.look_at(applicant, self.waiting.len(), &mut proven);
                }
                Err(Errno::ECONNABORTED) => {}
                Err(Errno::EAGAIN) => break,
                // No descriptors or no memory: others have to end first.
                Err(_) => {
                    self.shut_until = Some(after(now(), PAUSE));
                    break;
                }
            }
        }
        proven
    }

    fn look_at(&mut self, mut applicant: Applicant, place: usize, proven: &mut Vec<Fd>) {
        match applicant.read(&self.key) {
            Shown::NotAll => self.waiting.insert(place, applicant),
            Shown::Key => proven.push(applicant.socket),
            Shown::Gone => {}
            Shown::Wrong(failure) => refuse(&applicant.socket, &failure),
        }
    }
}

impl Applicant {
    fn read(&mut self, key: &Key) -> Shown {
        loop {
            let wanted = match self.header() {
                Ok(None) => HEADER_LEN,
                Ok(Some(header)) => HEADER_LEN + header.length.min(Attach::LEN),
                Err(error) => return Shown::Wrong(broken(error)),
            };
            if self.count == wanted {
                return match self.attach() {
                    Ok(attach) if attach.key == *key => Shown::Key,
                    Ok(_) => Shown::Wrong(attach_failure("wrong key")),
                    Err(error) => Shown::Wrong(broken(error)),
                };
            }
            match io::read(&self.socket, &mut self.bytes[self.count..wanted]) {
                Ok(0) => return Shown::Gone,
                Ok(count) => self.count += count,
                Err(Errno::EAGAIN) => return Shown::NotAll,
                Err(_) => return Shown::Gone,
            }
        }
    }

    fn header(&self) -> core::result::Result<Option<Header>, ProtocolError> {
        if self.count < HEADER_LEN {
            return Ok(None);
        }
        let bytes = self.bytes.first_chunk().ok_or(ProtocolError::Truncated)?;
        let header = Header::decode(bytes)?;
        if header.kind == Kind::Attach && header.stream == 0 && !header.more {
            Ok(Some(header))
        } else {
            Err(ProtocolError::Unexpected("first message"))
        }
    }

    fn attach(&self) -> core::result::Result<Attach, ProtocolError> {
        // Another version is named as such, however long its message is.
        let attach = Attach::decode(&self.bytes[HEADER_LEN..self.count])?;
        match self.header()? {
            Some(header) if header.length == Attach::LEN => Ok(attach),
            _ => Err(ProtocolError::TrailingBytes),
        }
    }
}

/// The failure of one more client than are served.
pub(super) fn too_many() -> Failure {
    attach_failure("too many clients")
}

/// Says why a client is not served. The socket is new: it takes the word, or nobody is there.
pub(super) fn refuse(socket: &Fd, failure: &Failure) {
    let mut outgoing = Outgoing::default();
    outgoing.message(0, Kind::Failed, &failure.encode());
    // Nobody is there any more.
    let _ = outgoing.write_to(socket.raw());
}

fn attach_failure(detail: &str) -> Failure {
    refusal(FailStep::Attach, detail)
}

fn broken(error: ProtocolError) -> Failure {
    refusal(
        FailStep::Protocol,
        alloc::string::ToString::to_string(&error),
    )
}
