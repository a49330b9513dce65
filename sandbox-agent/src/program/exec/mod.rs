//! Executions: their processes, and what the agent knows of each.

mod child;
mod execution;
mod identity;
mod lookup;
mod output;
mod record;
mod spare;
mod spawn;
mod stdin;
mod supervisor;
mod sweep;
mod tree;

pub(super) use execution::{Execution, Part};
pub(super) use spare::Spare;
pub(super) use supervisor::drain;
pub(super) use sweep::Sweep;
pub(super) use tree::has_parent;
