//! Programs inside of the kernel.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::bpf",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "makes a BPF map",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["bpf"]))),
};
