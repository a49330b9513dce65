//! What comes out of a sandbox as artifacts.

use crate::probe::Probe;

mod fifo;
mod file;
mod link;
mod output_link;
mod unlisted;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    fifo::PROBE,
    file::PROBE,
    link::PROBE,
    output_link::PROBE,
    unlisted::PROBE,
];
