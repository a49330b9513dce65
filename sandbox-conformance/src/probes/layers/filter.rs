//! The filter of system calls of each execution.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::filter",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "asks for the filter of system calls where the report names seccomp",
    setting: plain,
    permitting: None,
    denials: &told("filtered"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(stage, super::FILTER, Call::new(["filters", "1"])).await
}
