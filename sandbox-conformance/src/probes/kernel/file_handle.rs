//! Files by their handles, past the checks of every folder above them.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::file_handle",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "opens a file of its own by handle",
    setting: plain,
    permitting: None,
    denials: HANDLES,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["handle", ITSELF]))),
};

const HANDLES: &[Denial] = &[
    Denial {
        sign: "EPERM",
        means: "no capability, or seccomp",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
    Denial {
        sign: "EOPNOTSUPP",
        means: "a file system without handles",
    },
];
