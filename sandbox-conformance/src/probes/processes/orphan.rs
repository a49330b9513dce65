//! A process that leaves its session and its parents, while the program that started it ends.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::orphan",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "leaves a process behind, forked twice and in a session of its own",
    setting: plain,
    permitting: None,
    denials: GONE_WITH_IT,
    run: |stage| Box::pin(run(stage)),
};

const GONE_WITH_IT: &[Denial] = &[Denial {
    sign: "gone",
    means: "the whole tree ends with the program",
}];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |token: &str| Call::new(["orphan", token, "2500"]);
    let control = format!("{}-control", stage.token());
    let outlives = {
        let run = host::run(&stage.grounds().program(), &call(&control)).await?;
        run.attempt(None).is_success() && !host::processes_with(&control)?.is_empty()
    };
    host::kill_all_with(&control)?;
    let failure = (!outlives).then(|| "no process was left behind".to_owned());
    stage.host_control_was(control_step(failure));
    stage.allow_control(&Call::new(["fork"])).await;
    let attack = format!("{}-attack", stage.token());
    let started = stage.execute(&call(&attack)).await;
    let left = host::wait_gone(&attack, GONE).await?;
    host::kill_all_with(&attack)?;
    stage.attack_was(Step::new(
        call(&attack).text(),
        match started {
            Ok(_) => Attempt::leak_if(!left.is_empty(), "gone"),
            Err(attempt) => attempt,
        },
    ));
    stage.watched(
        "processes of the host after the program's end",
        left.is_empty(),
    );
    Ok(())
}

fn control_step(failure: Option<String>) -> Step {
    control("leave a process behind on the host", failure)
}
