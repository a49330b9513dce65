//! Exit codes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "exec::exit_codes",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Behavior,
    summary: "exits with 0, 1 and 255 and compares what is told",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |code: i32| Call::new(["exit", &code.to_string()]);
    let run = host::run(&stage.grounds().program(), &call(255)).await?;
    let failure = (run.outcome != Outcome::Exited { code: 255 }).then(|| run.outcome.to_string());
    stage.host_control_was(control("exit 255 on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let mut told = Ok(None);
    for code in [0, 1, 255] {
        told = match stage.execute(&call(code)).await {
            Ok(result) if result.outcome == (Outcome::Exited { code }) => continue,
            Ok(result) => Ok(Some(format!("exit {code} was told as: {}", result.outcome))),
            Err(attempt) => Err(attempt),
        };
        break;
    }
    stage.attack_was(behavior("exit 0, 1, 255", told));
    stage.nothing_to_watch("exit codes are no matter of the host");
    Ok(())
}
