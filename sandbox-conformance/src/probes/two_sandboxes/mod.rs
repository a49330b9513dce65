//! What one sandbox renames while another one is created.

use crate::probe::Probe;

mod copy_source;
mod output;
mod read_root;
mod state_folder;
mod workspace;
mod workspace_parent;
mod write_root;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    copy_source::PROBE,
    output::PROBE,
    read_root::PROBE,
    state_folder::PROBE,
    workspace::PROBE,
    workspace_parent::PROBE,
    write_root::PROBE,
];
