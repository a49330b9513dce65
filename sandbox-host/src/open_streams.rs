//! The open streams of a connection to an agent.

use std::sync::Arc;
use std::time::Duration;

use sandbox_agent::protocol::{AGENT_STREAMS, MAX_CONNECTIONS, MAX_STREAMS, ProtocolError};
use sandbox_core::{Error, ErrorKind, Result};

use crate::inbox::{Inbox, Inboxes, StreamEnd};
use crate::tcp::{TcpState, TcpStates};

/// The host's stream numbers are below this, the agent's are not.
const HOST_STREAMS: u32 = AGENT_STREAMS;

/// The open streams, by number.
#[derive(Debug, Default)]
pub(crate) struct OpenStreams {
    pub(crate) inboxes: Inboxes,
    pub(crate) connections: TcpStates,
    last: u32,
    /// How many of the connections the agent has opened.
    of_agent: usize,
}

impl OpenStreams {
    /// Adds a stream of an execution or a log. Returns its number.
    pub(crate) fn add(&mut self, inbox: &Arc<Inbox>) -> Result<u32> {
        if self.inboxes.len() >= MAX_STREAMS {
            let context = format!("{MAX_STREAMS} executions are running in this sandbox");
            return Err(Error::new(ErrorKind::InvalidRequest, "execute", context));
        }
        let id = self.number("execute")?;
        self.inboxes.insert(id, Arc::clone(inbox));
        Ok(id)
    }

    /// Adds a connection into the sandbox. Returns its number.
    pub(crate) fn add_connection(&mut self, state: &Arc<TcpState>) -> Result<u32> {
        if self.connections.len() - self.of_agent >= MAX_CONNECTIONS {
            let context = format!("{MAX_CONNECTIONS} connections into this sandbox are open");
            return Err(Error::new(ErrorKind::InvalidRequest, "connect", context));
        }
        let id = self.number("connect")?;
        self.connections.insert(id, Arc::clone(state));
        Ok(id)
    }

    /// Adds a connection that the agent has opened.
    pub(crate) fn add_of_agent(
        &mut self,
        id: u32,
        state: &Arc<TcpState>,
    ) -> std::result::Result<(), ProtocolError> {
        if id < AGENT_STREAMS || self.connections.contains_key(&id) {
            return Err(ProtocolError::BadValue("number of a stream"));
        }
        if self.of_agent >= MAX_CONNECTIONS {
            return Err(ProtocolError::TooLarge("number of connections"));
        }
        self.of_agent += 1;
        self.connections.insert(id, Arc::clone(state));
        Ok(())
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove_connection(&mut self, id: u32) {
        if self.connections.remove(&id).is_some() && id >= AGENT_STREAMS {
            self.of_agent -= 1;
        }
    }

    /// An unused number for a stream of the host.
    fn number(&mut self, operation: &'static str) -> Result<u32> {
        let next = self.last.checked_add(1).filter(|next| *next < HOST_STREAMS);
        self.last = next.ok_or_else(|| {
            let context = "all stream numbers are used up";
            Error::new(ErrorKind::SandboxEnded, operation, context)
        })?;
        Ok(self.last)
    }

    /// Whether the agent has used up its time to end one of them.
    pub(crate) fn are_overdue(&self) -> bool {
        self.inboxes.values().any(|inbox| inbox.is_overdue())
            || self.connections.values().any(|state| state.is_overdue())
    }

    /// Excludes time in which this process was paused.
    pub(crate) fn exclude(&self, time: Duration) {
        for inbox in self.inboxes.values() {
            inbox.exclude(time);
        }
        for state in self.connections.values() {
            state.exclude(time);
        }
    }

    /// The connection to the agent has ended for this reason.
    pub(crate) fn lose(&mut self, reason: &str) {
        for (_, inbox) in self.inboxes.drain() {
            inbox.end(StreamEnd::Lost(reason.to_owned()));
        }
        for (_, state) in self.connections.drain() {
            state.lose(reason);
        }
        self.of_agent = 0;
    }
}
