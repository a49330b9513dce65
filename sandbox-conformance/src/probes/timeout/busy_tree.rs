//! Processes that never wait for anything.

use std::time::Duration;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "timeout::busy_tree",
    version: 1,
    subject: Subject::Capability(Capability::Timeout),
    kind: Kind::Isolation,
    summary: "keeps two processes busy for 1.8 s under a limit of 1 s",
    setting: |_| Setting::with(|policy| policy.timeout = Some(Duration::from_secs(1))),
    permitting: None,
    denials: signs::TIME,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    limit(
        stage,
        Call::new(["spin", "1", "50", "0"]),
        Call::new(["spin", "2", "1800", "0"]),
    )
    .await
}
