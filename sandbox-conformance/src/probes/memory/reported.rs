//! What the caller is told of the end.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::reported",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Behavior,
    summary: "is told that a program ended for memory",
    setting: |_| Setting::with(|policy| policy.memory = Some(ByteSize::mib(64))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |size| Call::new(["memory", size]);
    stage.host_control(&call("128")).await?;
    stage.allow_control(&call("16")).await;
    let result = stage.execute(&call("128")).await.map(|result| {
        (result.outcome != Outcome::OutOfMemory).then(|| format!("told: {}", result.outcome))
    });
    stage.attack_was(behavior("take twice the memory", result));
    stage.nothing_to_watch("the limit is the sandbox's own");
    Ok(())
}
