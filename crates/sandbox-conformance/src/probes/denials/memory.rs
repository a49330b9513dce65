//! More memory than the limit.

use sandbox_core::DenialKind;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::memory",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "is told that a program was killed for memory",
    setting: |_| Setting::with(|policy| policy.memory = Some(ByteSize::mib(64))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| {
        Box::pin(super::told(
            stage,
            Call::new(["memory", "128"]),
            DenialKind::Memory,
            Capability::Memory,
        ))
    },
};
