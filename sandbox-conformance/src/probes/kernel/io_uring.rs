//! Asynchronous calls that pass by every filter of system calls.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::io_uring",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "sets up an io_uring",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["io-uring"]))),
};
