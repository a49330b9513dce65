//! The folder that a program starts in.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "environment::working_folder",
    version: 2,
    subject: Subject::Capability(Capability::EnvVarAccess),
    kind: Kind::Isolation,
    summary: "climbs from the folder that it starts in to a file of the host",
    setting: rooted_if_taken,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

/// Deeper than any working folder is.
const CLIMB: &str = "../../../../../../../../../../../../../../../..";

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let granted = Canary::plant(&stage.read_folder()?.join("canary"), 0o644)?;
    let canary = stage.canary(0o644)?;
    let read = |path: &std::path::Path, canary: &Canary| {
        Call::new(["read"])
            .and(format!("{CLIMB}{}", path.display()))
            .expect(canary.fingerprint())
    };
    let attack = read(canary.path(), &canary);
    stage.host_control(&attack).await?;
    let readable = stage.granted(&granted).await?;
    stage.allow_control(&read(&readable, &granted)).await;
    stage.attack(&attack).await;
    stage.oracle(canary.oracle());
    Ok(())
}
