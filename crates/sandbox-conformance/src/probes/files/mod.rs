//! Files in and out.

use crate::probe::Probe;

mod fetch_through_link;
mod put_through_link;
mod round_trip;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    fetch_through_link::PROBE,
    put_through_link::PROBE,
    round_trip::PROBE,
];
