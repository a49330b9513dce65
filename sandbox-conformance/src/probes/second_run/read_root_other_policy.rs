//! A read root in a folder that was the workspace of an earlier run.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::read_root_other_policy",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "replaces a folder by a link, and reads there in a run to which it is a read root",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::in_a_first_run(stage, uses::READ_ROOT)),
};
