//! More output than the limit.

use sandbox_core::DenialKind;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::output",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "is told that output beyond the limit was not kept",
    setting: |_| Setting::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(64))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| {
        Box::pin(super::told(
            stage,
            Call::new(["emit", "1000000", "0"]),
            DenialKind::Output,
            Capability::StdoutMaxBytes,
        ))
    },
};
