//! The user of the code, beside the one of the agent.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::own_user",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "compares the code's user with its parent's where the report names one of its own",
    setting: plain,
    permitting: None,
    denials: &told("own_user"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(stage, super::OWN_USER, Call::new(["parents-user"])).await
}
