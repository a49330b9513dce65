//! A file of the host that only its owner may read.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::read_private",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host with mode 0600",
    setting: plain,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o600)?;
    let read = Call::new(["read"])
        .and(canary.path())
        .expect(canary.fingerprint());
    stage.host_control(&read).await?;
    stage.allow_control(&Call::new(["read", ITSELF])).await;
    stage.attack(&read).await;
    stage.oracle(canary.oracle());
    Ok(())
}
