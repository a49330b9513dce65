//! Standard input, output and error.

use crate::probe::Probe;

mod binary_integrity;
mod no_input;
mod separate;

/// The probes of this area.
pub static PROBES: &[Probe] = &[binary_integrity::PROBE, no_input::PROBE, separate::PROBE];
