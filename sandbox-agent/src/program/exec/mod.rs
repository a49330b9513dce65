//! Executions: their processes and their state in the agent.

mod child;
mod control;
mod execution;
mod identity;
mod lookup;
mod output;
mod preforked;
mod spawn;
mod stdin;
mod supervisor;
mod sweep;
mod terminal;
mod tree;

pub(super) use execution::{Execution, ExecutionDescriptor};
pub(super) use preforked::PreforkedExec;
pub(super) use supervisor::drain;
pub(super) use sweep::Sweep;
pub(super) use tree::has_parent;
