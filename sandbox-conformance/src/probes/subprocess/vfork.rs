//! A child in the same memory, as posix_spawn(3) makes it.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "subprocess::vfork",
    version: 1,
    subject: Subject::Capability(Capability::SubprocessExecution),
    kind: Kind::Isolation,
    summary: "makes a child with CLONE_VM and CLONE_VFORK",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: signs::SINGLE,
    run: |stage| Box::pin(same_call(stage, Call::new(["vfork"]), Call::new(["vfork"]))),
};
