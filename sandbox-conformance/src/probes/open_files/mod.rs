//! Descriptors.

use crate::probe::Probe;

mod many;

/// The probes of this area.
pub static PROBES: &[Probe] = &[many::PROBE];
