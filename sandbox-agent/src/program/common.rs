//! What all clients of the agent share.

use alloc::{collections::BTreeMap, string::ToString};

use crate::runtime::Pid;

use super::{failing::refusal, log::Log, reserve::Reserve, sandbox::Sandbox};
use crate::protocol::{FailStep, Failure, MAX_STREAMS};

/// A stream of any client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamName {
    /// The client's number.
    pub(super) client: u32,
    /// The stream's, among that client's.
    pub(super) stream: u32,
}

/// What all clients share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) sandbox: Sandbox,
    pub(super) log: Log,
    /// Supervisors that have not been reaped, with their streams.
    pub(super) supervisors: BTreeMap<Pid, StreamName>,
    /// The next execution, while no client's code runs.
    pub(super) reserve: Reserve,
    /// How many streams are open.
    streams: usize,
    /// The grace of the first request to stop, in milliseconds.
    stop: Option<u32>,
}

impl Common {
    pub(super) fn new(sandbox: Sandbox, log: Log) -> Self {
        Self {
            sandbox,
            log,
            supervisors: BTreeMap::new(),
            reserve: Reserve::new(),
            streams: 0,
            stop: None,
        }
    }

    /// Counts a stream.
    ///
    /// # Errors
    ///
    /// When as many are open as may be.
    pub(super) fn open_stream(&mut self) -> Result<(), Failure> {
        if self.streams >= MAX_STREAMS {
            let detail = MAX_STREAMS.to_string() + " streams are open already";
            return Err(refusal(FailStep::Request, detail));
        }
        self.streams += 1;
        Ok(())
    }

    /// Counts streams that have ended.
    pub(super) fn close_streams(&mut self, count: usize) {
        self.streams = self.streams.saturating_sub(count);
    }

    /// Notes that a client wants the end of everything; the first one's grace counts.
    pub(super) fn ask_to_stop(&mut self, grace: u32) {
        self.stop.get_or_insert(grace);
    }

    /// The grace, once a client has asked for the end.
    pub(super) fn stop_asked(&self) -> Option<u32> {
        self.stop
    }

    /// Whether executions may still start.
    ///
    /// # Errors
    ///
    /// When the sandbox is being stopped.
    pub(super) fn check_running(&self) -> Result<(), Failure> {
        if self.stop.is_some() {
            return Err(refusal(FailStep::Request, "the sandbox is being stopped"));
        }
        Ok(())
    }
}
