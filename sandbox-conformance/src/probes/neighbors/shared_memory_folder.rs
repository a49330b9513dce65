//! Files of another sandbox in /dev/shm.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "neighbors::shared_memory_folder",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "opens a file that another sandbox made in /dev/shm",
    setting: plain,
    permitting: None,
    denials: super::UNSHARED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let path = |place: &str| format!("/dev/shm/{}-{place}", stage.token());
    let (control, attack) = (path("control"), path("attack"));
    super::shared(stage, "file", &control, &attack).await
}
