//! Control groups: limits, and a program that the kernel starts as root.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::control_groups",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "opens files of the control groups for writing",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_FILE,
    run: |stage| {
        Box::pin(kernel_call(
            stage,
            Call::new([
                "open-for-writing",
                "/sys/fs/cgroup/release_agent",
                "/sys/fs/cgroup/memory/release_agent",
                "/sys/fs/cgroup/cgroup.procs",
                "/sys/fs/cgroup/memory/cgroup.procs",
                "/sys/fs/cgroup/pids/cgroup.procs",
            ]),
        ))
    },
};
