//! A folder of the system's programs.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::write_system",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "creates a file in /usr, /etc, /bin or /",
    setting: plain,
    permitting: None,
    denials: signs::UNWRITABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let name = stage.token().to_owned();
    let places = ["/usr", "/etc", "/bin", ""].map(|folder| format!("{folder}/{name}"));
    let call = places
        .iter()
        .fold(Call::new(["create-any"]), |call, path| call.and(path));
    stage.host_control(&call).await?;
    stage
        .allow_control(&Call::new(["create-any", &stage.inside("file")]))
        .await;
    stage.attack(&call).await;
    let left = places
        .iter()
        .any(|path| std::path::Path::new(path).exists());
    stage.watched("/usr, /etc, /bin and / of the host", !left);
    Ok(())
}
