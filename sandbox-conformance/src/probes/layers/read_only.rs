//! Mounts that can only be read.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::read_only",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "looks for a writable mount at /, /usr, /etc and /bin where the report names a read-only one",
    setting: plain,
    permitting: None,
    denials: &told("read_only"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(
        stage,
        super::READ_ONLY,
        Call::new(["writable-mount", "/", "/usr", "/etc", "/bin"]),
    )
    .await
}
