//! A program that refuses every signal that can be refused.

use std::time::Duration;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "timeout::stubborn",
    version: 1,
    subject: Subject::Capability(Capability::Timeout),
    kind: Kind::Isolation,
    summary: "runs for 1.8 s with every signal blocked under a limit of 1 s",
    setting: |_| Setting::with(|policy| policy.timeout = Some(Duration::from_secs(1))),
    permitting: None,
    denials: signs::TIME,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    limit(
        stage,
        Call::new(["sleep", "", "50"]),
        Call::new(["stubborn", "1800"]),
    )
    .await
}
