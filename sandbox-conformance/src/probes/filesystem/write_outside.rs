//! A file of the host outside of the write roots.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::write_outside",
    version: 2,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "overwrites a file of the host with mode 0666 outside of the write roots",
    setting: rooted_if_taken,
    permitting: None,
    denials: signs::UNWRITABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.outside()?;
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = stage.canary(0o666)?;
    let write = |path: &std::path::Path| Call::new(["write"]).and(path).and("overwritten");
    stage.host_control(&write(target.path())).await?;
    let own = stage.writable("file").await;
    stage.allow_control(&Call::new(["create"]).and(own)).await;
    stage.attack(&write(canary.path())).await;
    stage.oracle(canary.oracle());
    Ok(())
}
