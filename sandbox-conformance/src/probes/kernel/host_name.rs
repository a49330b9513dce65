//! The name of the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::host_name",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "sets the host name to what it is",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["host-name"]))),
};
