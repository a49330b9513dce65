//! The capabilities of a process.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::capabilities",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "looks for a capability where the report names none",
    setting: plain,
    permitting: None,
    denials: &told("no_capabilities"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(
        stage,
        super::CAPABILITIES,
        Call::new(["capability-sets", "CapInh", "CapPrm", "CapEff", "CapAmb"]),
    )
    .await
}
