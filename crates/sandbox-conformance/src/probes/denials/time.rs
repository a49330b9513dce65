//! More time than the limit.

use std::time::Duration;

use sandbox_core::DenialKind;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::time",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "is told that an execution was killed at its time limit",
    setting: |_| Setting::with(|policy| policy.timeout = Some(Duration::from_secs(1))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| {
        Box::pin(super::told(
            stage,
            Call::new(["sleep", "-", "1800"]),
            DenialKind::Time,
            Capability::Timeout,
        ))
    },
};
