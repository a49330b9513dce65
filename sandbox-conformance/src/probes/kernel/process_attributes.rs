//! Attributes of a process that concern more than the process.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::process_attributes",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "asks for core scheduling, merged pages and dispatched system calls",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["attributes-of-process"]))),
};
