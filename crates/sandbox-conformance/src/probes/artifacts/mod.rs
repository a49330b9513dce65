//! What comes out of a sandbox as artifacts.

use crate::probe::Probe;

mod exported_again;
mod fifo;
mod file;
mod link;
mod output_link;
mod unlisted;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    exported_again::PROBE,
    fifo::PROBE,
    file::PROBE,
    link::PROBE,
    output_link::PROBE,
    unlisted::PROBE,
];
