//! A symbolic link out of the write root.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::symlink",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host through a symbolic link in the write root",
    setting: rooted,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o644)?;
    let link = stage.grounds().write_root().join(stage.token());
    let through =
        |target: &std::path::Path| Call::new(["read-through-link"]).and(target).and(&link);
    let granted = Canary::plant(&stage.read_folder()?.join("canary"), 0o644)?;
    let call = through(canary.path()).expect(canary.fingerprint());
    stage.host_control(&call).await?;
    stage
        .allow_control(&through(granted.path()).expect(granted.fingerprint()))
        .await;
    stage.attack(&call).await;
    stage.oracle(canary.oracle());
    Ok(())
}
