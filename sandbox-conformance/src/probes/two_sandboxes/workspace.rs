//! A workspace that another sandbox renames.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "two_sandboxes::workspace",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "exchanges a workspace and a link while another sandbox is created with it",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::meanwhile(stage, uses::FOLDER)),
};
