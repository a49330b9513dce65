//! Settings of the kernel, all that there are.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::settings",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "opens each file below /proc/sys, /proc/irq, /proc/bus and /proc/fs for writing",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_FILE,
    // On the host at least one succeeds, also for an ordinary user: /proc/sys/kernel/ns_last_pid.
    run: |stage| Box::pin(kernel_call(stage, Call::new(["open-kernel-settings"]))),
};
