//! The capabilities that any program could ever get.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::bounding_set",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "looks for a capability in the bounding set where the report names an empty one",
    setting: plain,
    permitting: None,
    denials: &told("no_capabilities"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(
        stage,
        super::BOUNDING_SET,
        Call::new(["capability-sets", "CapBnd"]),
    )
    .await
}
