//! More processes than the limit.

use sandbox_core::DenialKind;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::process_limit",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "is told that a process beyond the limit of 32 was denied",
    setting: |_| Setting::with(|policy| policy.pids = Some(32)),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| {
        Box::pin(super::told(
            stage,
            Call::new(["spawn", "100"]),
            DenialKind::ProcessLimit,
            Capability::Pids,
        ))
    },
};
