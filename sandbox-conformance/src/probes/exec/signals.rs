//! Ends by a signal.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "exec::signals",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Behavior,
    summary: "ends by SIGUSR1 and compares what is told",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const SIGUSR1: i32 = 10;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["raise", &SIGUSR1.to_string()]);
    let expected = Outcome::Signaled { signal: SIGUSR1 };
    let run = host::run(&stage.grounds().program(), &call).await?;
    let failure = (run.outcome != expected).then(|| run.outcome.to_string());
    stage.host_control_was(control("end by a signal on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage.execute(&call).await;
    let told = told.map(|result| (result.outcome != expected).then(|| result.outcome.to_string()));
    stage.attack_was(behavior("end by a signal", told));
    stage.nothing_to_watch("signals are no matter of the host");
    Ok(())
}
