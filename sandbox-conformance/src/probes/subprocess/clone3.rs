//! The call whose arguments no filter can see.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "subprocess::clone3",
    version: 1,
    subject: Subject::Capability(Capability::SubprocessExecution),
    kind: Kind::Isolation,
    summary: "makes a child with clone3(2)",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: signs::SINGLE,
    run: |stage| Box::pin(same_call(stage, Call::new(["fork"]), Call::new(["clone3"]))),
};
