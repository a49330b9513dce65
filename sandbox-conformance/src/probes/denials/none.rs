//! Nothing denied.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::none",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "forks, executes, talks to itself and fails on its own, and wants no denial for it",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let calls = [
        Call::new(["fork"]),
        Call::new(["execute", ITSELF, "alive"]),
        Call::new(["tcp-loopback"]),
        Call::new(["udp-loopback"]),
        Call::new(["read", "/no/such/file"]),
        Call::new(["exit", "7"]),
        Call::new(["raise", "9"]),
    ];
    stage.host_control(&calls[0]).await?;
    stage.allow_control(&calls[0]).await;
    let mut told = Ok(None);
    for call in &calls {
        told = match stage.execute(call).await {
            Err(attempt) => Err(attempt),
            Ok(result) if result.denials.is_empty() => continue,
            Ok(result) => Ok(Some(format!("{}: {:?}", call.text(), result.denials))),
        };
        break;
    }
    stage.attack_was(behavior("work as any program does", told));
    stage.nothing_to_watch("what is told is no matter of the host");
    Ok(())
}
