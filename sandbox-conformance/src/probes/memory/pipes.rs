//! Memory in the buffers of pipes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::pipes",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Isolation,
    summary: "holds 56 MiB in pipes with a limit of 32 MiB",
    setting: super::small,
    permitting: None,
    denials: super::HELD_BY_KERNEL,
    run: |stage| {
        Box::pin(limit(
            stage,
            Call::new(["pipes", "4"]),
            Call::new(["pipes", "56"]),
        ))
    },
};
