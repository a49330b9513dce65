//! An output folder that another sandbox renames.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "two_sandboxes::output",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Isolation,
    summary: "exchanges an output folder and a link while artifacts of another sandbox are written there",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::meanwhile(stage, uses::OUTPUT)),
};
