//! Time limits.

use crate::probe::Probe;

mod busy_tree;
mod detached_tree;
mod held_output;
mod in_time;
mod output_before;
mod stubborn;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    busy_tree::PROBE,
    detached_tree::PROBE,
    held_output::PROBE,
    in_time::PROBE,
    output_before::PROBE,
    stubborn::PROBE,
];
