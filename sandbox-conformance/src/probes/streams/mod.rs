//! Standard input, output and error.

use crate::probe::Probe;

mod binary_integrity;
mod endless_input;
mod events;
mod half_close;
mod late_reader;
mod many_writes;
mod no_input;
mod order;
mod separate;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    binary_integrity::PROBE,
    endless_input::PROBE,
    events::PROBE,
    half_close::PROBE,
    late_reader::PROBE,
    many_writes::PROBE,
    no_input::PROBE,
    order::PROBE,
    separate::PROBE,
];
