//! A file of the host that only its owner may read.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::read_private",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host with mode 0600",
    setting: plain,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o600)?;
    super::read(stage, &canary).await
}
