//! Output beyond the limit.

use sandbox_core::DenialKind;

use super::{TOLD, denied};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::output",
    version: 2,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "writes more than is kept, and wants to be told",
    setting: |_| Setting::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(4))),
    permitting: None,
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["emit", "5000", "1"]);
    let run = host::run(&stage.grounds().program(), &call).await?;
    let failure = (run.stdout_total != 5000).then(|| format!("{} bytes", run.stdout_total));
    stage.host_control_was(control("write on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    denied(
        stage,
        &call,
        DenialKind::Output,
        "stdout_max_bytes = 4KiB",
        |result| !result.truncated(),
    )
    .await;
    Ok(())
}
