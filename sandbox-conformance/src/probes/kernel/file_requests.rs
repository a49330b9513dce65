//! Requests that change a file system, or lead out of one.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::file_requests",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "asks for snapshots, flags, keys and namespaces by ioctl",
    setting: plain,
    permitting: None,
    denials: UNKNOWN,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["requests"]))),
};

/// How a request is refused before the kernel looks for the file, which is not there.
const UNKNOWN: &[Denial] = &[
    Denial {
        sign: "ENOTTY",
        means: "seccomp",
    },
    Denial {
        sign: "EPERM",
        means: "seccomp",
    },
    Denial {
        sign: "EACCES",
        means: "seccomp",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
];
