//! Numbers of processes.

use crate::probe::Probe;

mod fork_bomb;

/// The probes of this area.
pub static PROBES: &[Probe] = &[fork_bomb::PROBE];
