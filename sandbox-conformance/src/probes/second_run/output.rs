//! An output folder that code of an earlier run has made a link.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::output",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Isolation,
    summary: "replaces a folder by a link, and has the artifacts of a second run written there",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::in_a_first_run(stage, uses::OUTPUT)),
};
