//! A second program where one is allowed.

use sandbox_core::DenialKind;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::second_program",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "is told that a second program was denied",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| {
        Box::pin(super::told(
            stage,
            Call::new(["execute", ITSELF, "alive"]),
            DenialKind::Program,
            Capability::SubprocessExecution,
        ))
    },
};
