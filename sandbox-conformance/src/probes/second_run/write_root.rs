//! A write root that code of an earlier run has replaced.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::write_root",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "replaces a write root by a link to a folder of the host, and writes there in a second run of the same policy",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| {
        Box::pin(swap::in_a_first_run(
            stage,
            uses::same_policy(uses::WRITE_ROOT),
        ))
    },
};
