//! Starts the agent.

mod anchor;
mod child;
pub(crate) mod clone;
mod gate;
mod holder;
pub(crate) mod identity;
mod keeper;
mod launch;
mod network;
mod program;
mod spawner;

pub(crate) use anchor::Anchor;
pub(crate) use child::MAPPING;
pub(crate) use keeper::{Keeping, Kept, Refusal};
pub(crate) use launch::{Launch, MappedMount, NewFolder, ScratchMount};
pub(crate) use network::Network;
pub(crate) use spawner::{Started, ahead, begin, on_thread};
