//! Memory beyond the limit.

use sandbox_core::DenialKind;

use super::{TOLD, denied};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::memory",
    version: 2,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "takes twice the memory, and wants to be told",
    setting: |_| Setting::with(|policy| policy.memory = Some(ByteSize::mib(64))),
    permitting: None,
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |size| Call::new(["memory", size]);
    stage.host_control(&call("128")).await?;
    stage.allow_control(&call("16")).await;
    let large = call("128");
    denied(
        stage,
        &large,
        DenialKind::Memory,
        "memory = 64MiB",
        super::says_ok,
    )
    .await;
    Ok(())
}
