//! Limits of what the kernel counts for each user.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::user_limits",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "reads how many inotify instances its users may have, where the report names a limit",
    setting: plain,
    permitting: None,
    denials: &told("bounded"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    // Half of what the kernel gives a user by default.
    missing(
        stage,
        super::USER_LIMITS,
        Call::new(["user-limit", "max_inotify_instances", "64"]),
    )
    .await
}
