//! Processes outside of the sandbox, and after it.

use crate::probe::Probe;

mod dropped_execution;
mod end_of_sandbox;
mod host_invisible;
mod orphan;
mod parent_memory;
mod signal_host;
mod trace_parent;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    dropped_execution::PROBE,
    end_of_sandbox::PROBE,
    host_invisible::PROBE,
    orphan::PROBE,
    parent_memory::PROBE,
    signal_host::PROBE,
    trace_parent::PROBE,
];
