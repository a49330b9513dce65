//! The kernel's own keyboard: reboot, kill, crash.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::sysrq",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "opens /proc/sysrq-trigger for writing",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_FILE,
    run: |stage| {
        Box::pin(kernel_call(
            stage,
            Call::new(["open-for-writing", "/proc/sysrq-trigger"]),
        ))
    },
};
