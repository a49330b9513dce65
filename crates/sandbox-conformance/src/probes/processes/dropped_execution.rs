//! Processes of an execution that its caller lets go of.

use sandbox_core::Stdin;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::dropped_execution",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "drops an execution that started processes in sessions of their own",
    setting: plain,
    permitting: None,
    denials: GONE_WITH_IT,
    run: |stage| Box::pin(run(stage)),
};

const GONE_WITH_IT: &[Denial] = &[Denial {
    sign: "gone",
    means: "the whole tree ends with its execution",
}];

/// The program itself and the two that it starts.
const PROCESSES: usize = 3;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let tree = |token: &str| Call::new(["tree", token, "2", "6000"]);
    let control_token = format!("{}-control", stage.token());
    let mut child = host::spawn(&stage.grounds().program(), &tree(&control_token))?;
    let seen = wait_for(&control_token).await?;
    child.kill().await?;
    let left = host::processes_with(&control_token)?;
    host::kill_all_with(&control_token)?;
    let failure = (!seen || left.is_empty())
        .then(|| "on the host the tree ends with its first process, or never began".to_owned());
    stage.host_control_was(control(
        "kill the first process of a tree on the host",
        failure,
    ));
    stage.allow_control(&Call::new(["fork"])).await;
    let token = format!("{}-attack", stage.token());
    let call = tree(&token);
    let started = stage
        .with_sandbox(async |sandbox| {
            let request = sandbox.request(&call);
            let execution = sandbox.handle().start(&request, Stdin::Null).await?;
            let seen = wait_for(&token).await;
            drop(execution);
            Ok::<_, sandbox_core::Error>(seen)
        })
        .await;
    let attempt = match started {
        Err(declined) => declined,
        Ok(Err(error)) => Attempt::unclear(error.to_string()),
        Ok(Ok(seen)) => {
            let left = host::wait_gone(&token, GONE).await?;
            host::kill_all_with(&token)?;
            stage.watched(
                "processes of the host after the execution was dropped",
                left.is_empty(),
            );
            match seen? {
                true => Attempt::leak_if(!left.is_empty(), "gone"),
                false => Attempt::unclear("the tree was never seen on the host"),
            }
        }
    };
    stage.attack_was(Step::new(call.text(), attempt));
    Ok(())
}

async fn wait_for(token: &str) -> Result<bool, Trouble> {
    for _ in 0..200 {
        if host::processes_with(token)?.len() >= PROCESSES {
            return Ok(true);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(false)
}
