//! The record of a detached sandbox, for later clients.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use sandbox_host::process::{Era, ProcessId};
use sandbox_host::state;
use serde::{Deserialize, Serialize};

/// The content of `sandbox.json`.
pub(crate) type LocalRecord = state::DetachedRecord<DetachedResources>;

/// The processes and groups of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DetachedResources {
    /// The boot id and PID namespace in which the process ids are valid.
    pub(crate) era: Era,
    #[serde(rename = "keeper")]
    pub(crate) supervisor: ProcessId,
    pub(crate) agent: ProcessId,
    /// Whether the agent is the first process of its own PID namespace.
    pub(crate) own_processes: bool,
    /// Whether the sandbox has its own network namespace.
    pub(crate) own_network: bool,
    pub(crate) groups: Vec<PathBuf>,
    /// The file with the kernel's counter of memory kills.
    pub(crate) counter: Option<PathBuf>,
    /// The group with the limit of processes.
    pub(crate) process_limit: Option<PathBuf>,
    /// Whether the supervisor samples memory and counts kills in a file.
    pub(crate) sampled: bool,
}

impl DetachedResources {
    /// Whether the recorded process ids are valid in this PID namespace and boot.
    pub(crate) fn is_valid_here(&self) -> bool {
        self.era == Era::current()
    }

    /// A pidfd of the supervisor, if it runs.
    pub(crate) fn open_supervisor(&self) -> Option<OwnedFd> {
        self.is_valid_here()
            .then(|| self.supervisor.open())
            .flatten()
    }

    /// A pidfd of the agent, if it runs.
    pub(crate) fn open_agent(&self) -> Option<OwnedFd> {
        self.is_valid_here().then(|| self.agent.open()).flatten()
    }
}
