//! Connecting clients, their messages, and disconnects.

use crate::runtime::Fd;

use super::{Agent, FIRST_CLIENT};
use crate::{
    program::{
        agent_link::AgentLink,
        client::Client,
        connection::{Connection, ReadOutcome},
        control_listener::ListenerEvent,
        exit_reason::ExitReason,
        failures::protocol_failure,
        pending_client::{AuthenticatedClient, refuse, too_many, unknown_link},
        poll_set::{MonotonicMicros, after, now},
    },
    protocol::{Failure, FrameKind, MAX_CLIENTS, ProtocolError, Resume},
};

/// How long a later client may be silent, or not read its answers, without a lease in the settings.
/// In milliseconds; hosts ping every 5 s.
const DEFAULT_CLIENT_TIMEOUT_MS: u64 = 60_000;

impl Agent {
    pub(super) fn next_expiry(&self) -> Option<MonotonicMicros> {
        self.clients
            .iter()
            .filter(|client| client.connection.has_stream() && client.number != FIRST_CLIENT)
            .map(|client| client.expires_at)
            .min()
    }

    /// How long a client may be silent, or without a stream, in milliseconds.
    pub(super) fn client_timeout(&self) -> u64 {
        self.lease.unwrap_or(DEFAULT_CLIENT_TIMEOUT_MS)
    }

    /// When a disconnected client can no longer resume its link.
    pub(super) fn reconnect_deadline(&self, index: usize) -> Option<MonotonicMicros> {
        let since = self.clients[index].connection.disconnected_since()?;
        Some(after(since, self.client_timeout()))
    }

    /// Extends a client's timeout and the lease after it has sent something.
    fn note_activity(&mut self, index: usize) {
        let until = after(now(), self.client_timeout());
        let client = &mut self.clients[index];
        if client.number != FIRST_CLIENT {
            client.expires_at = until;
        }
        if self.lease.is_some() {
            self.lease_end = until;
        }
    }

    /// A client's stream is readable, writable or closed.
    pub(super) fn receive(&mut self, index: usize) -> Result<(), ExitReason> {
        match self.clients[index].receive(&mut self.read_buffer) {
            ReadOutcome::Bytes => {
                self.note_activity(index);
                self.dispatch(index)?;
                if self.clients[index].connection.is_closed() {
                    return self.stream_ended(index);
                }
                Ok(())
            }
            ReadOutcome::Nothing => Ok(()),
            ReadOutcome::End => self.stream_ended(index),
            ReadOutcome::Broken(error) => self.broken(index, error),
        }
    }

    pub(super) fn dispatch(&mut self, index: usize) -> Result<(), ExitReason> {
        match self.clients[index].dispatch(&mut self.shared) {
            Ok(()) => Ok(()),
            Err(error) => self.broken(index, error),
        }
    }

    /// Handles a client's protocol violation.
    fn broken(&mut self, index: usize, error: ProtocolError) -> Result<(), ExitReason> {
        if self.ends_sandbox(index) {
            return Err(error.into());
        }
        self.disconnect(index, &protocol_failure(error));
        Ok(())
    }

    /// Whether the sandbox ends with this client: its owner, or the only client that could ever
    /// reach the agent.
    pub(super) fn ends_sandbox(&self, index: usize) -> bool {
        self.clients[index].number == FIRST_CLIENT
            && (self.owned || (self.lease.is_none() && self.listener.is_none()))
    }

    /// Handles a closed stream. A client with a link can reconnect until the lease is over.
    pub(super) fn stream_ended(&mut self, index: usize) -> Result<(), ExitReason> {
        if self.clients[index].connection.lose_stream() {
            if self.lease.is_some() {
                self.lease_end = after(now(), self.client_timeout());
            }
            return Ok(());
        }
        if self.ends_sandbox(index) {
            return Err(ExitReason::OwnerGone);
        }
        self.clients[index].close(None, &mut self.shared);
        Ok(())
    }

    /// Disconnects a client and reports `failure` to it.
    pub(super) fn disconnect(&mut self, index: usize, failure: &Failure) {
        self.clients[index].close(Some(failure), &mut self.shared);
    }

    pub(super) fn accept_clients(&mut self, event: ListenerEvent) -> Result<(), ExitReason> {
        let Some(listener) = &mut self.listener else {
            return Ok(());
        };
        for client in listener.descriptor_ready(event, self.shared.sandbox.procfs.as_ref()) {
            match client {
                AuthenticatedClient::New { socket, link } => self.admit(socket, link),
                AuthenticatedClient::Resumed { socket, resume } => {
                    self.resume_client(socket, &resume)?
                }
            }
        }
        Ok(())
    }

    /// Adds a client.
    fn admit(&mut self, socket: Fd, link: Option<AgentLink>) {
        let alive = self
            .clients
            .iter()
            .filter(|client| client.connection.is_alive());
        if alive.count() >= MAX_CLIENTS && !self.evict_disconnected() {
            return refuse(socket, link, &too_many());
        }
        // After 2^32 clients, numbers would repeat.
        let Some(number) = self.last_number.checked_add(1) else {
            return refuse(socket, link, &too_many());
        };
        self.last_number = number;
        if self.detached_after_attach {
            (self.owned, self.lease) = (false, None);
        }
        let mut connection = Connection::from_socket(socket).with_link(link);
        connection
            .outgoing
            .message(0, FrameKind::Welcome, &self.welcome.encode());
        let expires_at = after(now(), self.client_timeout());
        self.clients
            .push(Client::new(number, connection, expires_at));
    }

    /// Frees one slot for a new client: a disconnected client without open streams was most likely
    /// killed. Prefers clients without pending output, then the one that has been disconnected for
    /// longest. Returns whether a slot was freed.
    fn evict_disconnected(&mut self) -> bool {
        let away = (0..self.clients.len()).filter_map(|index| {
            let client = &self.clients[index];
            let since = client.connection.disconnected_since()?;
            let idle = client.streams() == 0 && !self.ends_sandbox(index);
            idle.then_some((!client.connection.outgoing.is_empty(), since, index))
        });
        let Some((_, _, index)) = away.min() else {
            return false;
        };
        self.clients[index].close(None, &mut self.shared);
        true
    }

    /// Resumes the link of a disconnected client.
    fn resume_client(&mut self, socket: Fd, resume: &Resume) -> Result<(), ExitReason> {
        let mut clients = self.clients.iter();
        let Some(index) = clients.position(|client| client.connection.has_secret(&resume.secret))
        else {
            refuse(socket, None, &unknown_link());
            return Ok(());
        };
        let connection = &mut self.clients[index].connection;
        if let Err((socket, error)) = connection.resume(socket, resume.received) {
            refuse(socket, None, &protocol_failure(error));
            return self.broken(index, error);
        }
        self.note_activity(index);
        Ok(())
    }
}
