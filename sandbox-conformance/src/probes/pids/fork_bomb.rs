//! More processes than the limit.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "pids::fork_bomb",
    version: 1,
    subject: Subject::Capability(Capability::Pids),
    kind: Kind::Isolation,
    summary: "starts 100 processes with a limit of 32",
    setting: |_| Setting::with(|policy| policy.pids = Some(32)),
    permitting: None,
    denials: signs::PROCESSES,
    run: |stage| {
        Box::pin(limit(
            stage,
            Call::new(["spawn", "8"]),
            Call::new(["spawn", "100"]),
        ))
    },
};
