//! Files of another sandbox in /tmp.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "neighbors::temporary_folder",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "opens a file that another sandbox made in /tmp",
    setting: plain,
    permitting: None,
    denials: super::UNSHARED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let path = |place: &str, stage: &Stage| stage.inside(place);
    let (control, attack) = (path("control", stage), path("attack", stage));
    super::shared(stage, "file", &control, &attack).await
}
