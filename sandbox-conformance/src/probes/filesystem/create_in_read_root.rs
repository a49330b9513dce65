//! A new file in a read root.

use std::os::unix::fs::PermissionsExt;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::create_in_read_root",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "creates a file in a folder with mode 0777 of a read root",
    setting: rooted,
    permitting: None,
    denials: signs::UNWRITABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.read_folder()?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))?;
    let planted = folder.join("planted");
    stage
        .host_control(&Call::new(["create"]).and(folder.join("control")))
        .await?;
    stage
        .allow_control(&Call::new(["create"]).and(stage.grounds().write_root().join(stage.token())))
        .await;
    stage.attack(&Call::new(["create"]).and(&planted)).await;
    stage.watched("names in the folder", !planted.exists());
    Ok(())
}
