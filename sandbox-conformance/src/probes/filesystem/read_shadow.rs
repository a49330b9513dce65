//! The host's password hashes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::read_shadow",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads the host's /etc/shadow",
    setting: plain,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    // What is not readable here cannot be compared: the host control tells.
    let content = std::fs::read("/etc/shadow").unwrap_or_default();
    let read = Call::new(["read", "/etc/shadow"]).expect(crate::program::fingerprint(&content));
    stage.host_control(&read).await?;
    stage.allow_control(&Call::new(["read", ITSELF])).await;
    stage.attack(&read).await;
    stage.nothing_to_watch("reading leaves no trace");
    Ok(())
}
