//! Characters pushed into a terminal, as if its user had typed them.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::terminal_input",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "pushes a character into a terminal with TIOCSTI",
    setting: plain,
    permitting: None,
    denials: NO_INPUT,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["terminal-input", "0"]))),
};

/// How pushing a character into a terminal is stopped.
pub(super) const NO_INPUT: &[Denial] = &[
    Denial {
        sign: "EPERM",
        means: "seccomp",
    },
    Denial {
        sign: "EACCES",
        means: "seccomp, or no device for terminals",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
    Denial {
        sign: "ENOENT",
        means: "no device for terminals",
    },
    Denial {
        sign: "ENXIO",
        means: "no device for terminals",
    },
    Denial {
        sign: "EIO",
        means: "the kernel's own setting",
    },
];
