//! A file of the host that every user may read, outside of the read roots.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::read_outside",
    version: 2,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host with mode 0644 outside of the read roots",
    setting: rooted_if_taken,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let granted = Canary::plant(&stage.read_folder()?.join("canary"), 0o644)?;
    let canary = stage.canary(0o644)?;
    let read = |path: &std::path::Path, canary: &Canary| {
        Call::new(["read"]).and(path).expect(canary.fingerprint())
    };
    let attack = read(canary.path(), &canary);
    stage.host_control(&attack).await?;
    let readable = stage.granted(&granted).await?;
    stage.allow_control(&read(&readable, &granted)).await;
    stage.attack(&attack).await;
    stage.oracle(canary.oracle());
    Ok(())
}
