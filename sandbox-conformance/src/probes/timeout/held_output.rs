//! A process that holds the output open after the program's end.

use std::time::Duration;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "timeout::held_output",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Isolation,
    summary: "ends while a detached process holds its standard output for 2.5 s",
    setting: plain,
    permitting: None,
    denials: PROMPT,
    run: |stage| Box::pin(run(stage)),
};

const PROMPT: &[Denial] = &[Denial {
    sign: "prompt",
    means: "the program's end is the end",
}];

/// The process holds on for 2.5 s; a caller that waits this long waited for it.
const STALLED: Duration = Duration::from_secs(2);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |token: &str| Call::new(["orphan", token, "2500", "hold"]);
    let token = stage.token().to_owned();
    let run = host::run(
        &stage.grounds().program(),
        &call(&format!("{token}-control")),
    )
    .await?;
    let failure =
        (run.duration < STALLED).then(|| format!("the end came after {:?}", run.duration));
    stage.host_control_was(control(
        "wait for the output of a detached process",
        failure,
    ));
    stage.allow_control(&Call::new(["alive"])).await;
    let attack = format!("{token}-attack");
    let attempt = match stage.execute(&call(&attack)).await {
        Ok(result) => Attempt::leak_if(result.duration >= STALLED, "prompt"),
        Err(attempt) => attempt,
    };
    let left = host::wait_gone(&attack, GONE).await?;
    stage.attack_was(Step::new(call(&attack).text(), attempt));
    stage.watched(
        "processes of the host after the program's end",
        left.is_empty(),
    );
    host::kill_all_with(&attack)
}
