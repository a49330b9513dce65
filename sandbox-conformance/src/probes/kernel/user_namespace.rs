//! A user namespace, in which its maker has every capability.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::user_namespace",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "unshares a user namespace",
    setting: plain,
    permitting: None,
    denials: super::NO_NAMESPACE,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["user-namespace"]))),
};
