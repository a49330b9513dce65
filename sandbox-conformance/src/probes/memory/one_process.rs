//! Memory of one process.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::one_process",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Isolation,
    summary: "touches 128 MiB with a limit of 64 MiB",
    setting: |_| Setting::with(|policy| policy.memory = Some(ByteSize::mib(64))),
    permitting: None,
    denials: signs::MEMORY,
    run: |stage| {
        Box::pin(limit(
            stage,
            Call::new(["memory", "16"]),
            Call::new(["memory", "128"]),
        ))
    },
};
