//! Starting the agent.

pub(crate) mod clone;
mod gate;
mod holder;
pub(crate) mod identity;
mod launch;
mod program;
mod spawner;

pub(crate) use launch::{Launch, MappedMount, ScratchMount};
pub(crate) use spawner::{Started, begin};
