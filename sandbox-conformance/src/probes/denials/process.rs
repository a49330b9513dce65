//! Another process, where only one is allowed.

use sandbox_core::DenialKind;

use super::{TOLD, denied, says_ok};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::process",
    version: 2,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "forks where that is denied, and wants to be told",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["fork"]);
    stage.host_control(&call).await?;
    stage.allow_control(&call).await;
    let rule = "subprocess_execution = false";
    denied(stage, &call, DenialKind::Process, rule, says_ok).await;
    Ok(())
}
