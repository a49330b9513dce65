//! Moving a file of a read root away.

use std::os::unix::fs::PermissionsExt;

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::reach_by_rename",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "renames a file of a read root into the write root",
    setting: rooted,
    permitting: None,
    denials: signs::UNWRITABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.read_folder()?;
    let (read, write) = (stage.grounds().read_root(), stage.grounds().write_root());
    for folder in [&folder, &read] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))?;
    }
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = Canary::plant(&folder.join("canary"), 0o666)?;
    let own = write.join(format!("{}-own", stage.token()));
    let call = |from: &std::path::Path| {
        Call::new(["rename"])
            .and(from)
            .and(write.join(stage_name(from)))
    };
    stage.host_control(&call(target.path())).await?;
    stage
        .allow_control(
            &Call::new(["create-and-rename"])
                .and(&own)
                .and(own.with_extension("moved")),
        )
        .await;
    stage.attack(&call(canary.path())).await;
    stage.oracle(canary.oracle());
    Ok(())
}

fn stage_name(from: &std::path::Path) -> std::ffi::OsString {
    from.file_name().unwrap_or_default().to_owned()
}
