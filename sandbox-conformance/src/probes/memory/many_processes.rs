//! Memory of many processes, each of which stays below the limit.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::many_processes",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Isolation,
    summary: "touches 32 MiB in each of 8 processes with a limit of 64 MiB",
    setting: |_| Setting::with(|policy| policy.memory = Some(ByteSize::mib(64))),
    permitting: None,
    denials: signs::MEMORY,
    run: |stage| {
        Box::pin(limit(
            stage,
            Call::new(["memory-of-children", "2", "8"]),
            Call::new(["memory-of-children", "8", "32"]),
        ))
    },
};
