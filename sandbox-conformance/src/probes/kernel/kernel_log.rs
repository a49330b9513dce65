//! The kernel's log, with addresses and other users' programs in it.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::kernel_log",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "reads the kernel's log by syslog(2) and /dev/kmsg",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_FILE,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["kernel-log"]))),
};
