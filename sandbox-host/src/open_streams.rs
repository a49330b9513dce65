//! The open streams of a connection to an agent.

use std::sync::Arc;
use std::time::Duration;

use sandbox_agent::protocol::{MAX_CONNECTIONS, MAX_STREAMS};
use sandbox_core::{Error, ErrorKind, Result};

use crate::inbox::{Inbox, Inboxes, StreamEnd};
use crate::tcp::{TcpState, TcpStates};

/// The host's stream numbers are below this.
const HOST_STREAMS: u32 = 1 << 31;

/// The open streams, by number.
#[derive(Debug, Default)]
pub(crate) struct OpenStreams {
    pub(crate) inboxes: Inboxes,
    pub(crate) connections: TcpStates,
    last: u32,
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
        if self.connections.len() >= MAX_CONNECTIONS {
            let context = format!("{MAX_CONNECTIONS} connections into this sandbox are open");
            return Err(Error::new(ErrorKind::InvalidRequest, "connect", context));
        }
        let id = self.number("connect")?;
        self.connections.insert(id, Arc::clone(state));
        Ok(id)
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
    }
}
