//! Standard input, output and error.

use crate::probe::Probe;

mod binary_integrity;
mod half_close;
mod many_writes;
mod no_input;
mod order;
mod separate;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    binary_integrity::PROBE,
    half_close::PROBE,
    many_writes::PROBE,
    no_input::PROBE,
    order::PROBE,
    separate::PROBE,
];
