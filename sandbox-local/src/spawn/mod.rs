//! Starts the agent.

mod child;
pub(crate) mod clone;
pub(crate) mod identity;
mod latch;
mod launch;
mod network;
mod program;
mod scope_helper;
mod spawner;
mod supervisor;
mod user_ns_holder;

pub(crate) use child::ID_MAPPING_UNSUPPORTED;
pub(crate) use launch::{IdMappedMount, Launch, NewFolder, ScratchMount};
pub(crate) use network::Network;
pub(crate) use scope_helper::ScopeHelper;
pub(crate) use spawner::{PendingAgent, begin_start, run_ahead, run_on_spawner};
pub(crate) use supervisor::{DetachedProcesses, SupervisorError, SupervisorSetup};
