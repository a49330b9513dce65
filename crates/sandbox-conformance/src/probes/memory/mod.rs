//! Memory.

use crate::probe::Probe;

mod many_processes;
mod one_process;
mod reported;
mod unmapped;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    many_processes::PROBE,
    one_process::PROBE,
    reported::PROBE,
    unmapped::PROBE,
];
