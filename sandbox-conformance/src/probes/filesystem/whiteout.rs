//! A device that a rename leaves behind.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::whiteout",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "renames a file in a write root so that a device stays in its place",
    setting: rooted,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let (control, attacked) = (stage.outside()?, stage.write_folder()?);
    let place = |folder: &std::path::Path, name| folder.join(format!("{}-{name}", stage.token()));
    let [from, to] = ["file", "moved"].map(|name| place(&attacked, name));
    let control = ["file", "moved"].map(|name| place(&control, name));
    let own = ["own", "renamed"].map(|name| place(&attacked, name));
    let call =
        |name, from: &std::path::Path, to: &std::path::Path| Call::new([name]).and(from).and(to);
    stage
        .host_control(&call("whiteout", &control[0], &control[1]))
        .await?;
    stage
        .allow_control(&call("create-and-rename", &own[0], &own[1]))
        .await;
    stage.attack(&call("whiteout", &from, &to)).await;
    let is_device = std::fs::symlink_metadata(&from).is_ok_and(|file| !file.is_file());
    stage.watched("what stands in the file's place on the host", !is_device);
    Ok(())
}
