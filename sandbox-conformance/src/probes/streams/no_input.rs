//! Standard input that nobody gave.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::no_input",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "reads standard input that was not given, and wants its end at once",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["echo"]).timeout(std::time::Duration::from_secs(2));
    let run = host::run(&stage.grounds().program(), &call).await?;
    let failure = (!run.outcome.ok()).then(|| run.outcome.to_string());
    stage.host_control_was(control("read an empty input on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage.execute(&call).await;
    let told = told.map(|result| {
        (!result.ok() || !result.stdout.bytes.is_empty()).then(|| result.outcome.to_string())
    });
    stage.attack_was(behavior("read no input", told));
    stage.nothing_to_watch("input is no matter of the host");
    Ok(())
}
