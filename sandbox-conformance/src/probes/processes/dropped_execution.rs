//! An execution that its caller gives up.

use sandbox_core::{ExecRequest, Stdin};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::dropped_execution",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "goes on in sessions of its own after its caller gave it up",
    setting: plain,
    permitting: None,
    denials: GONE_WITH_IT,
    run: |stage| Box::pin(run(stage)),
};

const GONE_WITH_IT: &[Denial] = &[Denial {
    sign: "gone",
    means: "dropping an execution kills its whole tree",
}];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |token: &str| Call::new(["tree", token, "5", "2500"]);
    let control_token = format!("{}-control", stage.token());
    let program = stage.grounds().program();
    let mut child = host::spawn(&program, &call(&control_token))?;
    let started = wait_for(&control_token).await?;
    child.kill().await?;
    let left = host::processes_with(&control_token)?;
    host::kill_all_with(&control_token)?;
    let failure = (!started || left.is_empty()).then(|| "nothing goes on".to_owned());
    stage.host_control_was(control("kill the first of a tree on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let token = format!("{}-attack", stage.token());
    let attempt = stage
        .with_sandbox(async |sandbox| {
            let words = call(&token);
            let arguments = words.arguments_for(sandbox.program().as_bytes());
            let request = ExecRequest::new(sandbox.program()).args(arguments);
            match sandbox.handle().start(&request, Stdin::Null).await {
                Ok(execution) => {
                    let started = wait_for(&token).await;
                    drop(execution);
                    match started {
                        Ok(true) => Ok(()),
                        Ok(false) => Err(Attempt::unclear("the tree did not start")),
                        Err(trouble) => Err(Attempt::unclear(trouble.to_string())),
                    }
                }
                Err(error) => Err(Attempt::unclear(error.to_string())),
            }
        })
        .await
        .unwrap_or_else(Err);
    let left = host::wait_gone(&token, GONE).await?;
    host::kill_all_with(&token)?;
    stage.attack_was(Step::new(
        call(&token).text(),
        match attempt {
            Ok(()) => Attempt::leak_if(!left.is_empty(), "gone"),
            Err(attempt) => attempt,
        },
    ));
    stage.watched(
        "processes of the host after the caller gave up",
        left.is_empty(),
    );
    Ok(())
}

/// Waits until the whole tree is there, as the host sees it.
async fn wait_for(token: &str) -> Result<bool, Trouble> {
    for _ in 0..200 {
        if host::processes_with(token)?.len() > 5 {
            return Ok(true);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(false)
}
