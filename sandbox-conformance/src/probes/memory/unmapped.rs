//! Memory that no process has mapped.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::unmapped",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Isolation,
    summary: "writes 128 MiB into a file in memory with a limit of 64 MiB, and maps none of it",
    setting: |_| Setting::with(|policy| policy.memory = Some(ByteSize::mib(64))),
    permitting: None,
    denials: signs::MEMORY,
    run: |stage| {
        Box::pin(limit(
            stage,
            Call::new(["memory-unmapped", "16"]),
            Call::new(["memory-unmapped", "128"]),
        ))
    },
};
