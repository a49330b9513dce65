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
    denials: NO_NAMESPACE,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["user-namespace"]))),
};

const NO_NAMESPACE: &[Denial] = &[
    Denial {
        sign: "EPERM",
        means: "seccomp, or the host's own setting",
    },
    Denial {
        sign: "EACCES",
        means: "Landlock, AppArmor, or seccomp",
    },
    Denial {
        sign: "ENOSPC",
        means: "limit of user namespaces",
    },
    Denial {
        sign: "EUSERS",
        means: "limit of nested user namespaces",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
    Denial {
        sign: "signal:31",
        means: "seccomp, killing",
    },
];
