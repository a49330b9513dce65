//! Standard input, output and error.

use crate::probe::Probe;

mod binary_integrity;
mod endless_input;
mod events;
mod half_close;
mod late_reader;
mod no_input;
mod separate;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    binary_integrity::PROBE,
    endless_input::PROBE,
    events::PROBE,
    half_close::PROBE,
    late_reader::PROBE,
    no_input::PROBE,
    separate::PROBE,
];
