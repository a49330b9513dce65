//! A file to be copied whose folder another sandbox renames.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "two_sandboxes::copy_source",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Isolation,
    summary: "exchanges a folder and a link while a file of it is copied into another sandbox",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::meanwhile(stage, uses::COPY)),
};
