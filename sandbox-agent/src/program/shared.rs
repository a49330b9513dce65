//! State that all clients of the agent share.

use alloc::{collections::BTreeMap, string::ToString};

use crate::runtime::Pid;

use super::{
    egress::Egress, failures::refusal, output_log::OutputLog, prefork_pool::PreforkPool,
    prepared_sandbox::PreparedSandbox,
};
use crate::protocol::{FailStep, Failure, MAX_CONNECTIONS, MAX_STREAMS};

/// Identifies a stream among all clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamName {
    /// The client's number.
    pub(super) client: u32,
    /// The stream's number on that client's connection.
    pub(super) stream: u32,
}

/// State that all clients share.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) sandbox: PreparedSandbox,
    pub(super) log: OutputLog,
    /// Supervisors that have not been reaped, with their streams.
    pub(super) supervisors: BTreeMap<Pid, StreamName>,
    /// A pre-forked execution, while no code runs.
    pub(super) prefork_pool: PreforkPool,
    /// The way out, if rules allow any.
    pub(super) egress: Option<Egress>,
    /// Number of open streams.
    streams: usize,
    /// Number of open connections that clients have asked for.
    connections: usize,
    /// The grace period of the first request to stop, in milliseconds.
    stop_grace_ms: Option<u32>,
}

impl SharedState {
    pub(super) fn new(sandbox: PreparedSandbox, log: OutputLog, egress: Option<Egress>) -> Self {
        Self {
            sandbox,
            log,
            supervisors: BTreeMap::new(),
            prefork_pool: PreforkPool::new(),
            egress,
            streams: 0,
            connections: 0,
            stop_grace_ms: None,
        }
    }

    /// Counts a new stream.
    ///
    /// # Errors
    ///
    /// When [`MAX_STREAMS`] are open.
    pub(super) fn open_stream(&mut self) -> Result<(), Failure> {
        if self.streams >= MAX_STREAMS {
            let detail = MAX_STREAMS.to_string() + " streams are open already";
            return Err(refusal(FailStep::Request, detail));
        }
        self.streams += 1;
        Ok(())
    }

    /// Counts closed streams.
    pub(super) fn close_streams(&mut self, count: usize) {
        self.streams = self.streams.saturating_sub(count);
    }

    /// Counts a new connection. Returns whether it may be opened: at most [`MAX_CONNECTIONS`].
    pub(super) fn open_connection(&mut self) -> bool {
        let allowed = self.connections < MAX_CONNECTIONS;
        self.connections += usize::from(allowed);
        allowed
    }

    /// Counts closed connections.
    pub(super) fn close_connections(&mut self, count: usize) {
        self.connections = self.connections.saturating_sub(count);
    }

    /// Records a client's request to stop. The first request's grace period counts.
    pub(super) fn request_stop(&mut self, grace: u32) {
        self.stop_grace_ms.get_or_insert(grace);
    }

    /// The grace period in milliseconds, once a client has asked for a stop.
    pub(super) fn stop_grace(&self) -> Option<u32> {
        self.stop_grace_ms
    }

    /// Checks that executions may still start.
    ///
    /// # Errors
    ///
    /// When the sandbox is being stopped.
    pub(super) fn check_running(&self) -> Result<(), Failure> {
        if self.stop_grace_ms.is_some() {
            return Err(refusal(FailStep::Request, "the sandbox is being stopped"));
        }
        Ok(())
    }
}
