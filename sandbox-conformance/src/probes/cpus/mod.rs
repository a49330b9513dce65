//! Processor time.

use crate::probe::Probe;

mod spinners;

/// The probes of this area.
pub static PROBES: &[Probe] = &[spinners::PROBE];
