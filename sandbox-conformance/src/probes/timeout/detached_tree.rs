//! Processes that left the program's session before the limit.

use std::time::Duration;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "timeout::detached_tree",
    version: 1,
    subject: Subject::Capability(Capability::Timeout),
    kind: Kind::Isolation,
    summary: "starts 20 processes in sessions of their own under a limit of 1 s",
    setting: |_| Setting::with(|policy| policy.timeout = Some(Duration::from_secs(1))),
    permitting: None,
    denials: signs::TIME,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |token: &str, duration| Call::new(["tree", token, "20", duration]);
    let token = stage.token().to_owned();
    stage
        .host_control(&call(&format!("{token}-control"), "1500"))
        .await?;
    stage
        .allow_control(&call(&format!("{token}-short"), "50"))
        .await;
    let attack = format!("{token}-attack");
    stage.attack(&call(&attack, "2500")).await;
    let left = host::wait_gone(&attack, GONE).await?;
    stage.watched("processes of the host after the limit", left.is_empty());
    host::kill_all_with(&attack)
}
