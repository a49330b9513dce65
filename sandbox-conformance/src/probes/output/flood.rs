//! A program that never stops writing.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "output::flood",
    version: 1,
    subject: Subject::Capability(Capability::StdoutMaxBytes),
    kind: Kind::Isolation,
    summary: "writes 128 MiB to standard output with a cap of 64 KiB",
    setting: |_| Setting::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(64))),
    permitting: None,
    denials: signs::OUTPUT,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let flood = Call::new(["emit", "134217728", "0"]);
    limit(stage, Call::new(["alive"]), flood).await
}
