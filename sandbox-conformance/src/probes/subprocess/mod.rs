//! A second process or program where none is allowed.

use crate::probe::Probe;

mod clone3;
mod compat_fork;
mod execute;
mod execute_memory;
mod fork;
mod threads;
mod vfork;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    clone3::PROBE,
    compat_fork::PROBE,
    execute::PROBE,
    execute_memory::PROBE,
    fork::PROBE,
    threads::PROBE,
    vfork::PROBE,
];
