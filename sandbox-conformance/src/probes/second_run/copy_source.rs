//! A file to be copied whose folder code of an earlier run has replaced.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::copy_source",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Isolation,
    summary: "replaces a folder by a link, and waits for a file of it to be copied into a second sandbox",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::in_a_first_run(stage, uses::COPY)),
};
