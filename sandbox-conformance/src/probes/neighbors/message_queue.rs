//! A POSIX message queue of another sandbox.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "neighbors::message_queue",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "opens a message queue that another sandbox made",
    setting: plain,
    permitting: None,
    denials: super::UNSHARED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let name = |place: &str| format!("{}-{place}", stage.token());
    let (control, attack) = (name("control"), name("attack"));
    super::shared(stage, "queue", &control, &attack).await
}
