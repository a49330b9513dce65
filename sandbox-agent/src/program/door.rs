//! Where later clients come in: a listening socket, and those who have not shown the key yet.

use alloc::vec::Vec;

use crate::runtime::{
    Descriptor, Errno, Fd, RawFd, Result, io,
    net::{self, SOCK_CLOEXEC, SOCK_NONBLOCK},
};

use super::{
    applicant::{Applicant, Origin, Shown, Visitor, too_many, too_slow},
    polling::{Moment, POLLIN, PollSet, after, now},
    process_files::ProcessFiles,
};
use crate::protocol::{Key, MAX_CLIENTS};

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

/// The listening socket. Where code of the sandbox can reach it, only what it sends is looked at, and only its own places are taken.
#[derive(Debug)]
pub(super) struct Door {
    socket: Fd,
    key: Key,
    waiting: Vec<Applicant>,
    /// Until when nobody is let in.
    shut_until: Option<Moment>,
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
            let socket = applicant.raw();
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
        // They wait in the order of their time.
        while self.waiting.first().is_some_and(|one| one.until <= now) {
            self.waiting.remove(0).refuse(&too_slow());
        }
    }

    /// Something happened; gives those who have shown what has to be shown.
    /// `files` tell where a visitor comes from.
    pub(super) fn happened(&mut self, place: Place, files: Option<&ProcessFiles>) -> Vec<Visitor> {
        match place {
            Place::Entrance => self.accept(files),
            Place::Waiting(socket) => {
                let found = self.waiting.iter().position(|one| one.raw() == socket);
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

    fn accept(&mut self, files: Option<&ProcessFiles>) -> Vec<Visitor> {
        let mut proven = Vec::new();
        for _ in 0..TURN {
            match net::accept(&self.socket, SOCK_CLOEXEC | SOCK_NONBLOCK) {
                Ok(socket) => {
                    let origin = Origin::of(&socket, files);
                    self.make_room(origin);
                    let applicant = Applicant::new(socket, origin, after(now(), KEY_TIME));
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

    /// Refuses whoever of this origin has waited longest, where too many of it wait. Who has the key shows it at once. Code of the
    /// sandbox may knock as often as it likes: it takes the places of those who come from inside, never those of clients.
    fn make_room(&mut self, origin: Origin) {
        let mut alike = self.waiting.iter().filter(|one| one.origin == origin);
        if alike.clone().count() < MAX_CLIENTS {
            return;
        }
        let oldest = alike.next().map(Applicant::raw);
        let place = self
            .waiting
            .iter()
            .position(|one| Some(one.raw()) == oldest);
        if let Some(place) = place {
            self.waiting.remove(place).refuse(&too_many());
        }
    }

    fn look_at(&mut self, mut applicant: Applicant, place: usize, proven: &mut Vec<Visitor>) {
        match applicant.read(&self.key) {
            Shown::NotAll => self.waiting.insert(place, applicant),
            Shown::Key => proven.push(applicant.into_client()),
            Shown::Return(resume) => proven.push(applicant.into_returning(resume)),
            Shown::Gone => {}
            Shown::Wrong(failure) => applicant.refuse(&failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_knocks_takes_no_place_of_a_client() {
        let (listener, _other) = net::socket_pair(net::SOCK_STREAM | SOCK_CLOEXEC).unwrap();
        let mut door = Door::new(listener, Key::new([7; Key::LEN])).unwrap();
        let mut until = now();
        // The moment is the applicant's mark.
        let mut knock = |door: &mut Door, origin| {
            let (socket, _other) =
                net::socket_pair(net::SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK).unwrap();
            until = after(until, 1);
            door.make_room(origin);
            door.waiting.push(Applicant::new(socket, origin, until));
            until
        };
        let client = knock(&mut door, Origin::Outside);
        let first = knock(&mut door, Origin::Inside);
        for _ in 0..3 * MAX_CLIENTS {
            knock(&mut door, Origin::Inside);
        }
        let waits = |door: &Door, until| door.waiting.iter().any(|one| one.until == until);
        assert!(waits(&door, client) && !waits(&door, first));
        assert_eq!(door.waiting.len(), MAX_CLIENTS + 1);
        for _ in 0..MAX_CLIENTS {
            knock(&mut door, Origin::Outside);
        }
        assert!(!waits(&door, client));
        assert_eq!(door.waiting.len(), 2 * MAX_CLIENTS);
    }
}
