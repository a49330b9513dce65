//! The same with high bits in the request, which the kernel ignores and a careless filter compares.

use super::terminal_input::NO_INPUT;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::terminal_input_high_bits",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "pushes a character into a terminal with TIOCSTI and bits above the 32nd",
    setting: plain,
    permitting: None,
    denials: NO_INPUT,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["terminal-input", "57005"]))),
};
