//! The process that started the code: the agent, or the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::trace_parent",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "attaches to its parent with ptrace(2)",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_PROCESS,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["signal-child"]),
            Call::new(["trace-parent"]),
        ))
    },
};
