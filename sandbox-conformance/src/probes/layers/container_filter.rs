//! The filter of system calls that an engine gives its container, under the one of each execution.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::container_filter",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "counts the filters of system calls where the report names the container's profile beside ours",
    setting: plain,
    permitting: None,
    denials: &told("filtered"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(stage, super::CONTAINER_FILTER, Call::new(["filters", "2"])).await
}
