//! What code of an earlier run has rearranged, when a later run is given it.

use crate::probe::Probe;

mod copy_source;
mod export_path;
mod fifo;
mod nested_read_root;
mod output;
mod read_root;
mod read_root_other_policy;
mod read_root_parent;
mod workspace;
mod write_root;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    copy_source::PROBE,
    export_path::PROBE,
    fifo::PROBE,
    nested_read_root::PROBE,
    output::PROBE,
    read_root::PROBE,
    read_root_other_policy::PROBE,
    read_root_parent::PROBE,
    workspace::PROBE,
    write_root::PROBE,
];
