//! A symbolic link out of the write root.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::symlink",
    version: 2,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host through a symbolic link in the write root",
    setting: rooted_if_taken,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o644)?;
    let link = stage.grounds().write_root().join(stage.token());
    let through = |target: &std::path::Path, link: &std::path::Path| {
        Call::new(["read-through-link"]).and(target).and(link)
    };
    let granted = Canary::plant(&stage.read_folder()?.join("canary"), 0o644)?;
    let outside = |link| through(canary.path(), link).expect(canary.fingerprint());
    stage.host_control(&outside(&link)).await?;
    let readable = stage.granted(&granted).await?;
    let link = stage.writable("link").await;
    stage
        .allow_control(&through(&readable, &link).expect(granted.fingerprint()))
        .await;
    stage.attack(&outside(&link)).await;
    stage.oracle(canary.oracle());
    Ok(())
}
