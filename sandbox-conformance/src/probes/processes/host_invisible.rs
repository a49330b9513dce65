//! Processes of the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::host_invisible",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "looks for a process of the host in /proc",
    setting: plain,
    permitting: None,
    denials: signs::ABSENT,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let sleep = Call::new(["sleep", stage.token(), "20000"]);
    let _victim = host::spawn(&stage.grounds().program(), &sleep)?;
    let find = Call::new(["find", stage.token()]);
    stage.host_control(&find).await?;
    stage
        .allow_control(&Call::new(["find-child", "find-child"]))
        .await;
    stage.attack(&find).await;
    stage.nothing_to_watch("looking leaves no trace");
    Ok(())
}
