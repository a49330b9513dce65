//! fork(2).

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "subprocess::fork",
    version: 1,
    subject: Subject::Capability(Capability::SubprocessExecution),
    kind: Kind::Isolation,
    summary: "forks",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: signs::SINGLE,
    run: |stage| Box::pin(same_call(stage, Call::new(["fork"]), Call::new(["fork"]))),
};
