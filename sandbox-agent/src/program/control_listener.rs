//! The control socket that later clients connect to, and clients that have not authenticated yet.

use alloc::vec::Vec;

use crate::runtime::{
    Descriptor, Errno, Fd, RawFd, io,
    net::{self, SOCK_CLOEXEC, SOCK_NONBLOCK},
};

use super::{
    pending_client::{
        AuthenticatedClient, HandshakeState, Origin, PendingClient, too_many, too_slow,
    },
    poll_set::{MonotonicMicros, POLLIN, PollSet, after, now},
    procfs::Procfs,
};
use crate::protocol::{ClientKey, MAX_CLIENTS};

/// Timeout for authenticating, in milliseconds.
const KEY_TIMEOUT_MS: u64 = 3000;

/// How many connections to accept before other events are handled.
const MAX_ACCEPTS_PER_EVENT: usize = 16;

/// How long accepting pauses after the system ran out of descriptors or memory, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;

/// Which descriptor is ready.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListenerEvent {
    /// The listening socket.
    ControlSocket,
    /// The socket of a pending client.
    PendingClient(RawFd),
}

/// The listening socket. Sandboxed code may be able to connect to it: its clients then use only
/// their own slots, and no more than the handshake is read from them.
#[derive(Debug)]
pub(super) struct ControlListener {
    socket: Fd,
    key: ClientKey,
    pending: Vec<PendingClient>,
    /// When accepting resumes after a pause.
    paused_until: Option<MonotonicMicros>,
}

impl ControlListener {
    /// Accepts clients on `socket` that send the key.
    ///
    /// # Errors
    ///
    /// `EBADF` when the descriptor is not open.
    pub(super) fn new(socket: Fd, key: ClientKey) -> Result<Self, Errno> {
        io::set_nonblocking(&socket, true)?;
        io::set_close_on_exec(&socket, true)?;
        Ok(Self {
            socket,
            key,
            pending: Vec::new(),
            paused_until: None,
        })
    }

    /// Adds its descriptors to the poll set.
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

    /// The next time at which [`ControlListener::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<MonotonicMicros> {
        // The first client has waited longest.
        let first = self.pending.first().map(|client| client.deadline);
        first.into_iter().chain(self.paused_until).min()
    }

    /// Handles expired timeouts.
    pub(super) fn tick(&mut self, now: MonotonicMicros) {
        self.paused_until.take_if(|deadline| *deadline <= now);
        // The list is sorted by deadline.
        while self
            .pending
            .first()
            .is_some_and(|client| client.deadline <= now)
        {
            self.pending.remove(0).refuse(&too_slow());
        }
    }

    /// Handles a ready descriptor and returns the clients that have authenticated. The procfs shows
    /// a client's origin.
    pub(super) fn descriptor_ready(
        &mut self,
        place: ListenerEvent,
        procfs: Option<&Procfs>,
    ) -> Vec<AuthenticatedClient> {
        match place {
            ListenerEvent::ControlSocket => self.accept(procfs),
            ListenerEvent::PendingClient(socket) => {
                let index = self
                    .pending
                    .iter()
                    .position(|client| client.raw() == socket);
                let mut authenticated = Vec::new();
                if let Some(index) = index {
                    // It keeps its index: the list is sorted by deadline.
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
                // Out of descriptors or memory: wait until others are closed.
                Err(_) => {
                    self.paused_until = Some(after(now(), ACCEPT_PAUSE_MS));
                    break;
                }
            }
        }
        authenticated
    }

    /// Refuses the oldest pending client of this origin if too many of them wait. A client with the
    /// key sends it at once. So sandboxed code that connects many times displaces only its own
    /// connections.
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
    fn inside_connections_displace_no_outside_client() {
        let (listener, _other) = net::socket_pair(net::SOCK_STREAM | SOCK_CLOEXEC).unwrap();
        let mut listener =
            ControlListener::new(listener, ClientKey::new([7; ClientKey::LEN])).unwrap();
        let mut deadline = now();
        // The deadline identifies the client.
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
