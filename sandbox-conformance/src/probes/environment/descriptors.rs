//! Open files of the process that makes sandboxes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "environment::descriptors",
    version: 1,
    subject: Subject::Capability(Capability::EnvVarAccess),
    kind: Kind::Isolation,
    summary: "looks for open descriptors above standard error",
    setting: plain,
    permitting: None,
    denials: signs::ABSENT,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["open-many", "8"]),
            Call::new(["descriptors"]),
        ))
    },
};
