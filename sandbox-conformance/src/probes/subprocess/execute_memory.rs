//! A second program that no file system holds.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "subprocess::execute_memory",
    version: 1,
    subject: Subject::Capability(Capability::SubprocessExecution),
    kind: Kind::Isolation,
    summary: "executes a memory file by execveat(2) and through /proc",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: signs::SINGLE,
    run: |stage| {
        let permitted = Call::new(["execute", ITSELF, "alive"]);
        Box::pin(same_call(stage, permitted, Call::new(["execute-memory"])))
    },
};
