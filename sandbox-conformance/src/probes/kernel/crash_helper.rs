//! The program that the kernel pipes core files to: it runs as root, outside of every limit of the sandbox.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::crash_helper",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "looks for a limit of core files that lets the host's crash helper run, or changes the limit",
    setting: plain,
    permitting: None,
    denials: &[
        Denial {
            sign: "EINVAL",
            means: "seccomp",
        },
        Denial {
            sign: "EPERM",
            means: "seccomp",
        },
    ],
    run: |stage| Box::pin(kernel_call(stage, Call::new(["crash-helper"]))),
};
