//! More descriptors than the limit.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "open_files::many",
    version: 1,
    subject: Subject::Capability(Capability::OpenFiles),
    kind: Kind::Isolation,
    summary: "holds 200 files open with a limit of 64",
    setting: |_| Setting::with(|policy| policy.open_files = Some(64)),
    permitting: None,
    denials: signs::DESCRIPTORS,
    run: |stage| {
        Box::pin(limit(
            stage,
            Call::new(["open-many", "32"]),
            Call::new(["open-many", "200"]),
        ))
    },
};
