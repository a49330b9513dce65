//! Variables, descriptors, and the folder to start in.

use crate::probe::Probe;

mod descriptors;
mod exact_set;
mod host_variable;
mod others_variables;
mod working_folder;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    descriptors::PROBE,
    exact_set::PROBE,
    host_variable::PROBE,
    others_variables::PROBE,
    working_folder::PROBE,
];
