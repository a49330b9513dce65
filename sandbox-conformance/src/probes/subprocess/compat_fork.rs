//! fork(2) by the system calls of 32-bit programs.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "subprocess::compat_fork",
    version: 1,
    subject: Subject::Capability(Capability::SubprocessExecution),
    kind: Kind::Isolation,
    summary: "forks by interrupt 0x80",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: NO_SECOND,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["fork"]),
            Call::new(["compat-fork"]),
        ))
    },
};

const NO_SECOND: &[Denial] = &[
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
    Denial {
        sign: "signal:31",
        means: "seccomp, killing",
    },
];
