//! Buffers of pipes, which the kernel counts for each user: who has many of them leaves others none.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::pipe_size",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "makes a pipe hold 256 KiB",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["pipe-size", "65536"]),
            Call::new(["pipe-size", "262144"]),
        ))
    },
};
