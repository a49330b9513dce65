//! A file in a read root.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::write_read_root",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "overwrites a file with mode 0666 in a read root",
    setting: rooted,
    permitting: None,
    denials: signs::UNWRITABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.read_folder()?;
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = Canary::plant(&folder.join("canary"), 0o666)?;
    let write = |path: &std::path::Path| Call::new(["write"]).and(path).and("overwritten");
    stage.host_control(&write(target.path())).await?;
    stage
        .allow_control(&Call::new(["create"]).and(stage.grounds().write_root().join(stage.token())))
        .await;
    stage.attack(&write(canary.path())).await;
    stage.oracle(canary.oracle());
    Ok(())
}
