//! Files in and out.

use crate::probe::Probe;

mod fetch_through_link;
mod large;
mod names;
mod put_over_reader;
mod put_through_link;
mod round_trip;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    fetch_through_link::PROBE,
    large::PROBE,
    names::PROBE,
    put_over_reader::PROBE,
    put_through_link::PROBE,
    round_trip::PROBE,
];
