//! The folder that a program starts in.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "environment::working_folder",
    version: 1,
    subject: Subject::Capability(Capability::EnvVarAccess),
    kind: Kind::Isolation,
    summary: "climbs from the folder that it starts in to a file of the host",
    setting: rooted,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

/// Deeper than any working folder is.
const CLIMB: &str = "../../../../../../../../../../../../../../../..";

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let granted = Canary::plant(&stage.read_folder()?.join("canary"), 0o644)?;
    let canary = stage.canary(0o644)?;
    let read = |canary: &Canary| {
        Call::new(["read"])
            .and(format!("{CLIMB}{}", canary.path().display()))
            .expect(canary.fingerprint())
    };
    stage.host_control(&read(&canary)).await?;
    stage.allow_control(&read(&granted)).await;
    stage.attack(&read(&canary)).await;
    stage.oracle(canary.oracle());
    Ok(())
}
