//! More standard output than is kept.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "output::stdout_cap",
    version: 1,
    subject: Subject::Capability(Capability::StdoutMaxBytes),
    kind: Kind::Behavior,
    summary: "writes 1,000,000 bytes to stdout with a cap of 65,536",
    setting: |_| Setting::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(64))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| {
        let call = Call::new(["emit", "1000000", "0"]);
        Box::pin(super::capped(
            stage,
            call,
            |run| run.stdout,
            |result| result.stdout,
        ))
    },
};
