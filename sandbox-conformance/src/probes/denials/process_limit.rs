//! Processes beyond the limit.

use sandbox_core::DenialKind;

use super::{TOLD, denied, says_ok};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::process_limit",
    version: 2,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "starts more processes than it may, and wants to be told",
    setting: |_| Setting::with(|policy| policy.pids = Some(16)),
    permitting: None,
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |count| Call::new(["spawn", count]);
    stage.host_control(&call("40")).await?;
    stage.allow_control(&call("4")).await;
    let many = call("40");
    denied(stage, &many, DenialKind::ProcessLimit, "pids = 16", says_ok).await;
    Ok(())
}
