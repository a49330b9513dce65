//! A workspace in a folder that was the workspace of an earlier run.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::workspace",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "replaces a folder by a link, and writes there in a run to which it is the workspace",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::in_a_first_run(stage, uses::FOLDER)),
};
