//! Who comes to the agent, what clients say, and who goes.

use crate::runtime::Fd;

use super::{Agent, FIRST};
use crate::{
    program::{
        applicant::{Visitor, refuse, too_many, unknown_link},
        client::Client,
        connection::{Arrival, Connection},
        door,
        ending::Ending,
        failing::breach,
        link::Link,
        polling::{Moment, after, now},
    },
    protocol::{Failure, Kind, MAX_CLIENTS, ProtocolError, Resume},
};

/// How long a later client may be silent, or take no answers, where the settings name no lease, milliseconds. Hosts ping
/// every 5 s.
const SILENCE: u64 = 60_000;

impl Agent {
    pub(super) fn silent_until(&self) -> Option<Moment> {
        self.clients
            .iter()
            .filter(|client| client.connection.has_stream() && client.number != FIRST)
            .map(|client| client.silent_until)
            .min()
    }

    /// How long a client may be silent, or without a stream.
    pub(super) fn patience(&self) -> u64 {
        self.lease.unwrap_or(SILENCE)
    }

    /// Until when a client that is away may come back.
    pub(super) fn away_until(&self, index: usize) -> Option<Moment> {
        let since = self.clients[index].connection.away_since()?;
        Some(after(since, self.patience()))
    }

    /// A client has given a sign of life.
    fn note_life(&mut self, index: usize) {
        let until = after(now(), self.patience());
        let client = &mut self.clients[index];
        if client.number != FIRST {
            client.silent_until = until;
        }
        if self.lease.is_some() {
            self.lease_end = until;
        }
    }

    /// A stream can be read, written, or has ended.
    pub(super) fn hear(&mut self, index: usize) -> Result<(), Ending> {
        match self.clients[index].hear(&mut self.chunk) {
            Arrival::Bytes => {
                self.note_life(index);
                self.dispatch(index)?;
                if self.clients[index].connection.is_closed() {
                    return self.stream_ended(index);
                }
                Ok(())
            }
            Arrival::Nothing => Ok(()),
            Arrival::End => self.stream_ended(index),
            Arrival::Broken(error) => self.broken(index, error),
        }
    }

    pub(super) fn dispatch(&mut self, index: usize) -> Result<(), Ending> {
        match self.clients[index].dispatch(&mut self.common) {
            Ok(()) => Ok(()),
            Err(error) => self.broken(index, error),
        }
    }

    /// A client has broken the protocol.
    fn broken(&mut self, index: usize, error: ProtocolError) -> Result<(), Ending> {
        if self.is_vital(index) {
            return Err(error.into());
        }
        self.dismiss(index, &breach(error));
        Ok(())
    }

    /// Whether everything ends with this client: its owner, or the only way to reach an agent that nothing else would end.
    pub(super) fn is_vital(&self, index: usize) -> bool {
        self.clients[index].number == FIRST
            && (self.owned || (self.lease.is_none() && self.door.is_none()))
    }

    /// A client's stream is gone, which reading or writing has shown. With a link, it has until the end of a lease to come back.
    pub(super) fn stream_ended(&mut self, index: usize) -> Result<(), Ending> {
        if self.clients[index].connection.lose() {
            if self.lease.is_some() {
                self.lease_end = after(now(), self.patience());
            }
            return Ok(());
        }
        if self.is_vital(index) {
            return Err(Ending::OwnerGone);
        }
        self.clients[index].depart(None, &mut self.common);
        Ok(())
    }

    /// Ends a client that is not wanted any more.
    pub(super) fn dismiss(&mut self, index: usize, failure: &Failure) {
        self.clients[index].depart(Some(failure), &mut self.common);
    }

    pub(super) fn let_in(&mut self, place: door::Place) -> Result<(), Ending> {
        let Some(door) = &mut self.door else {
            return Ok(());
        };
        for visitor in door.happened(place, self.common.sandbox.files.as_ref()) {
            match visitor {
                Visitor::Client { socket, link } => self.admit(socket, link),
                Visitor::Returning { socket, resume } => self.take_back(socket, &resume)?,
            }
        }
        Ok(())
    }

    /// Serves one more client.
    fn admit(&mut self, socket: Fd, link: Option<Link>) {
        let alive = self
            .clients
            .iter()
            .filter(|client| client.connection.is_alive());
        if alive.count() >= MAX_CLIENTS && !self.forget_one() {
            return refuse(socket, link, &too_many());
        }
        // Four thousand million clients later, the first number would come again.
        let Some(number) = self.last_number.checked_add(1) else {
            return refuse(socket, link, &too_many());
        };
        self.last_number = number;
        if self.handed_over {
            (self.owned, self.lease) = (false, None);
        }
        let mut connection = Connection::of_socket(socket).linked(link);
        connection
            .outgoing
            .message(0, Kind::Welcome, &self.welcome.encode());
        let silent_until = after(now(), self.patience());
        self.clients
            .push(Client::new(number, connection, silent_until));
    }

    /// Makes room for one more client: a client whose stream has ended and that has nothing under way is most likely gone, and was
    /// killed before it could say so. Of several it is one that has all it was sent, and of those the one that is away for longest.
    /// Says whether there was one.
    fn forget_one(&mut self) -> bool {
        let away = (0..self.clients.len()).filter_map(|index| {
            let client = &self.clients[index];
            let since = client.connection.away_since()?;
            let idle = client.streams() == 0 && !self.is_vital(index);
            idle.then_some((!client.connection.outgoing.is_empty(), since, index))
        });
        let Some((_, _, index)) = away.min() else {
            return false;
        };
        self.clients[index].depart(None, &mut self.common);
        true
    }

    /// Goes on with a client whose stream broke.
    fn take_back(&mut self, socket: Fd, resume: &Resume) -> Result<(), Ending> {
        let mut clients = self.clients.iter();
        let Some(index) = clients.position(|client| client.connection.has_secret(&resume.secret))
        else {
            refuse(socket, None, &unknown_link());
            return Ok(());
        };
        let connection = &mut self.clients[index].connection;
        if let Err((socket, error)) = connection.resume(socket, resume.received) {
            refuse(socket, None, &breach(error));
            return self.broken(index, error);
        }
        self.note_life(index);
        Ok(())
    }
}
