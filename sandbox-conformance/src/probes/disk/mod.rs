//! Storage.

use crate::probe::Probe;

mod many_files;
mod one_file;
mod shared_memory;
mod unlinked;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    many_files::PROBE,
    one_file::PROBE,
    shared_memory::PROBE,
    unlinked::PROBE,
];
