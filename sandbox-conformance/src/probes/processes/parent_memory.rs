//! The memory of the process that started the code.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::parent_memory",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "opens its parent's memory for writing",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_PROCESS,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["signal-child"]),
            Call::new(["parent-memory"]),
        ))
    },
};
