//! Where later clients come in: a listening socket, and those who have not shown the key yet.

use alloc::vec::Vec;

use crate::runtime::{
    Descriptor, Errno, Fd, RawFd, Result, io,
    net::{self, SOCK_CLOEXEC, SOCK_NONBLOCK},
};

use super::{
    pending_client::{
        AuthenticatedClient, HandshakeState, Origin, PendingClient, too_many, too_slow,
    },
    poll_set::{MonotonicMicros, POLLIN, PollSet, after, now},
    procfs::Procfs,
};
use crate::protocol::{Key, MAX_CLIENTS};

/// How long a client may take to show the key, milliseconds.
const KEY_TIMEOUT_MS: u64 = 3000;

/// How many connections are accepted before others have their turn.
const MAX_ACCEPTS_PER_EVENT: usize = 16;

/// How long nobody is let in after the system had no room for it, milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;

/// What something happened to.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListenerEvent {
    /// The listening socket.
    ControlSocket,
    /// A socket of somebody who has not shown the key.
    PendingClient(RawFd),
}

/// The listening socket. Where code of the sandbox can reach it, only what it sends is looked at, and only its own places are taken.
#[derive(Debug)]
pub(super) struct ControlListener {
    socket: Fd,
    key: Key,
    pending: Vec<PendingClient>,
    /// Until when nobody is let in.
    paused_until: Option<MonotonicMicros>,
}

impl ControlListener {
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
            pending: Vec::new(),
            paused_until: None,
        })
    }

    /// Adds what is to be waited for.
    pub(super) fn register<T: Copy>(
        &self,
        set: &mut PollSet<T>,
        token: impl Fn(ListenerEvent) -> T,
    ) {
        if self.paused_until.is_none() {
            set.add(
                self.socket.raw(),
                POLLIN,
                token(ListenerEvent::ControlSocket),
            );
        }
        for client in &self.pending {
            let socket = client.raw();
            set.add(socket, POLLIN, token(ListenerEvent::PendingClient(socket)));
        }
    }

    /// The next moment at which [`ControlListener::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<MonotonicMicros> {
        // Whoever came first has waited longest.
        let first = self.pending.first().map(|client| client.deadline);
        first.into_iter().chain(self.paused_until).min()
    }

    /// Does what time asks for.
    pub(super) fn tick(&mut self, now: MonotonicMicros) {
        self.paused_until.take_if(|deadline| *deadline <= now);
        // They wait in the order of their time.
        while self
            .pending
            .first()
            .is_some_and(|client| client.deadline <= now)
        {
            self.pending.remove(0).refuse(&too_slow());
        }
    }

    /// Something happened; gives those who have shown what has to be shown.
    /// `files` tell where a visitor comes from.
    pub(super) fn descriptor_ready(
        &mut self,
        place: ListenerEvent,
        procfs: Option<&Procfs>,
    ) -> Vec<AuthenticatedClient> {
        match place {
            ListenerEvent::ControlSocket => self.accept(procfs),
            ListenerEvent::PendingClient(socket) => {
                let found = self
                    .pending
                    .iter()
                    .position(|client| client.raw() == socket);
                let mut authenticated = Vec::new();
                if let Some(index) = found {
                    // It keeps its place: the order is that of time.
                    let client = self.pending.remove(index);
                    self.read_handshake(client, index, &mut authenticated);
                }
                authenticated
            }
        }
    }

    fn accept(&mut self, procfs: Option<&Procfs>) -> Vec<AuthenticatedClient> {
        let mut authenticated = Vec::new();
        for _ in 0..MAX_ACCEPTS_PER_EVENT {
            match net::accept(&self.socket, SOCK_CLOEXEC | SOCK_NONBLOCK) {
                Ok(socket) => {
                    let origin = Origin::of(&socket, procfs);
                    self.make_room(origin);
                    let client = PendingClient::new(socket, origin, after(now(), KEY_TIMEOUT_MS));
                    self.read_handshake(client, self.pending.len(), &mut authenticated);
                }
                Err(Errno::ECONNABORTED) => {}
                Err(Errno::EAGAIN) => break,
                // No descriptors or no memory: others have to end first.
                Err(_) => {
                    self.paused_until = Some(after(now(), ACCEPT_PAUSE_MS));
                    break;
                }
            }
        }
        authenticated
    }

    /// Refuses whoever of this origin has waited longest, where too many of it wait. Who has the key shows it at once. Code of the
    /// sandbox may knock as often as it likes: it takes the places of those who come from inside, never those of clients.
    fn make_room(&mut self, origin: Origin) {
        let mut same_origin = self.pending.iter().filter(|client| client.origin == origin);
        if same_origin.clone().count() < MAX_CLIENTS {
            return;
        }
        let oldest = same_origin.next().map(PendingClient::raw);
        let index = self
            .pending
            .iter()
            .position(|client| Some(client.raw()) == oldest);
        if let Some(index) = index {
            self.pending.remove(index).refuse(&too_many());
        }
    }

    fn read_handshake(
        &mut self,
        mut client: PendingClient,
        index: usize,
        authenticated: &mut Vec<AuthenticatedClient>,
    ) {
        match client.read(&self.key) {
            HandshakeState::Incomplete => self.pending.insert(index, client),
            HandshakeState::Authenticated => authenticated.push(client.into_new_client()),
            HandshakeState::Resume(resume) => {
                authenticated.push(client.into_resumed_client(resume))
            }
            HandshakeState::Disconnected => {}
            HandshakeState::Invalid(failure) => client.refuse(&failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_knocks_takes_no_place_of_a_client() {
        let (listener, _other) = net::socket_pair(net::SOCK_STREAM | SOCK_CLOEXEC).unwrap();
        let mut listener = ControlListener::new(listener, Key::new([7; Key::LEN])).unwrap();
        let mut deadline = now();
        // The moment is the applicant's mark.
        let mut connect = |listener: &mut ControlListener, origin| {
            let (socket, _other) =
                net::socket_pair(net::SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK).unwrap();
            deadline = after(deadline, 1);
            listener.make_room(origin);
            listener
                .pending
                .push(PendingClient::new(socket, origin, deadline));
            deadline
        };
        let client = connect(&mut listener, Origin::Outside);
        let first = connect(&mut listener, Origin::Inside);
        for _ in 0..3 * MAX_CLIENTS {
            connect(&mut listener, Origin::Inside);
        }
        let waits = |listener: &ControlListener, deadline| {
            listener
                .pending
                .iter()
                .any(|client| client.deadline == deadline)
        };
        assert!(waits(&listener, client) && !waits(&listener, first));
        assert_eq!(listener.pending.len(), MAX_CLIENTS + 1);
        for _ in 0..MAX_CLIENTS {
            connect(&mut listener, Origin::Outside);
        }
        assert!(!waits(&listener, client));
        assert_eq!(listener.pending.len(), 2 * MAX_CLIENTS);
    }
}
