//! Settings of the kernel behind a mount of their own that can only be read.

use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::kernel_settings",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "looks for a writable mount at /proc/sys where the report names a read-only one",
    setting: plain,
    permitting: None,
    denials: &told("read_only"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    missing(
        stage,
        super::KERNEL_SETTINGS,
        Call::new(["writable-mount", "/proc/sys"]),
    )
    .await
}
