//! A file of the host that every user may read, outside of the read roots.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::read_outside",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host with mode 0644 outside of the read roots",
    setting: rooted,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let granted = Canary::plant(&stage.read_folder()?.join("canary"), 0o644)?;
    let canary = stage.canary(0o644)?;
    let read = |canary: &Canary| {
        Call::new(["read"])
            .and(canary.path())
            .expect(canary.fingerprint())
    };
    stage.host_control(&read(&canary)).await?;
    stage.allow_control(&read(&granted)).await;
    stage.attack(&read(&canary)).await;
    stage.oracle(canary.oracle());
    Ok(())
}
