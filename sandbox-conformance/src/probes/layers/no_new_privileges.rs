//! Programs that give privileges when they are executed.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::no_new_privileges",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "asks whether an execution can gain privileges where the report names no_new_privs",
    setting: plain,
    permitting: None,
    denials: &told("no_new_privs"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(
        stage,
        super::NO_NEW_PRIVILEGES,
        Call::new(["may-gain-privileges"]),
    )
    .await
}
