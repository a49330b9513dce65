//! The system calls of 32-bit programs, which have numbers of their own.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::compat_calls",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "unshares a user namespace by interrupt 0x80",
    setting: plain,
    permitting: None,
    denials: super::NO_COMPAT_NAMESPACE,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["compat-namespace"]))),
};
