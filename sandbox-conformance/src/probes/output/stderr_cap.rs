//! More standard error than is kept.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "output::stderr_cap",
    version: 1,
    subject: Subject::Capability(Capability::StderrMaxBytes),
    kind: Kind::Behavior,
    summary: "writes 1,000,000 bytes to stderr with a cap of 65,536",
    setting: |_| Setting::with(|policy| policy.stderr_max_bytes = Some(ByteSize::kib(64))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| {
        let call = Call::new(["emit", "0", "1000000"]);
        Box::pin(super::capped(
            stage,
            call,
            |run| run.stderr,
            |result| result.stderr,
        ))
    },
};
