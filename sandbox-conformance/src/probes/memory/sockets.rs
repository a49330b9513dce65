//! Memory in the buffers of sockets.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::sockets",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Isolation,
    summary: "holds 56 MiB in pairs of unix sockets with a limit of 32 MiB",
    setting: super::small,
    permitting: None,
    denials: super::HELD_BY_KERNEL,
    run: |stage| {
        Box::pin(limit(
            stage,
            Call::new(["sockets", "4"]),
            Call::new(["sockets", "56"]),
        ))
    },
};
