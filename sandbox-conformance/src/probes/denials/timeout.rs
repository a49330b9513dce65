//! Time beyond the limit.

use std::time::Duration;

use sandbox_core::DenialKind;

use super::{TOLD, denied};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::timeout",
    version: 2,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "runs into its time limit, and wants to be told",
    setting: |_| Setting::with(|policy| policy.timeout = Some(Duration::from_secs(1))),
    permitting: None,
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |duration| Call::new(["stubborn", duration]);
    stage.host_control(&call("50")).await?;
    stage.allow_control(&call("50")).await;
    let slow = call("1800");
    denied(stage, &slow, DenialKind::Time, "timeout = 1s", |result| {
        result.outcome.exit_code().is_some()
    })
    .await;
    Ok(())
}
