//! Programs and their ends.

use crate::probe::Probe;

mod exit_codes;
mod missing_program;
mod missing_workdir;
mod orders;
mod signals;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    exit_codes::PROBE,
    missing_program::PROBE,
    missing_workdir::PROBE,
    orders::PROBE,
    signals::PROBE,
];
