//! Where a detached sandbox is, for whoever comes later.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use sandbox_host::process::{Era, ProcessId};
use sandbox_host::state;
use serde::{Deserialize, Serialize};

/// The content of `sandbox.json`.
pub(crate) type Record = state::Record<Parts>;

/// The processes and groups of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parts {
    /// When and where the processes' numbers mean something.
    pub(crate) era: Era,
    pub(crate) keeper: ProcessId,
    pub(crate) agent: ProcessId,
    /// Whether the agent is the first process of a process namespace.
    pub(crate) own_processes: bool,
    /// Whether the network namespace is the sandbox's own.
    pub(crate) own_network: bool,
    pub(crate) groups: Vec<PathBuf>,
    /// The file with the kernel's counter of kills for memory.
    pub(crate) counter: Option<PathBuf>,
    /// The group with the limit of processes.
    pub(crate) process_limit: Option<PathBuf>,
    /// Whether the keeper holds memory to its limit, and counts kills in a file of its own.
    pub(crate) sampled: bool,
}

impl Parts {
    /// Whether the processes' numbers mean those processes here.
    pub(crate) fn is_of_here(&self) -> bool {
        self.era == Era::current()
    }

    /// The keeper, if it lives.
    pub(crate) fn open_keeper(&self) -> Option<OwnedFd> {
        self.is_of_here().then(|| self.keeper.open()).flatten()
    }

    /// The agent, if it lives.
    pub(crate) fn open_agent(&self) -> Option<OwnedFd> {
        self.is_of_here().then(|| self.agent.open()).flatten()
    }
}
