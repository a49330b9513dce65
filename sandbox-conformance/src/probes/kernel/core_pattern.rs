//! The program that the kernel starts as root when another one crashes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::core_pattern",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "opens /proc/sys/kernel/core_pattern for writing",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_FILE,
    run: |stage| {
        Box::pin(kernel_call(
            stage,
            Call::new(["open-for-writing", "/proc/sys/kernel/core_pattern"]),
        ))
    },
};
