//! Output that is too much.

use crate::probe::Probe;

mod flood;
mod stderr_cap;
mod stdout_cap;

/// The probes of this area.
pub static PROBES: &[Probe] = &[flood::PROBE, stderr_cap::PROBE, stdout_cap::PROBE];
