//! Threads are no processes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "subprocess::threads",
    version: 1,
    subject: Subject::Capability(Capability::SubprocessExecution),
    kind: Kind::Behavior,
    summary: "starts a thread although no process may be started",
    setting: |_| Setting::with(|policy| policy.subprocess_execution = Some(false)),
    permitting: Some(plain),
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["thread"]);
    stage.host_control(&call).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let result = stage.execute(&call).await.map(|result| {
        let started = crate::program::Run::from(result).attempt(None).is_success();
        (!started).then(|| "no thread could be started".to_owned())
    });
    stage.attack_was(behavior("start a thread", result));
    stage.nothing_to_watch("a thread leaves no trace on the host");
    Ok(())
}
