//! A second program in the same process.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "subprocess::execute",
    version: 1,
    subject: Subject::Capability(Capability::SubprocessExecution),
    kind: Kind::Isolation,
    summary: "executes another program",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: signs::SINGLE,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["execute", ITSELF, "alive"]),
            Call::new(["execute", ITSELF, "alive"]),
        ))
    },
};
