//! Processes of a sandbox that was ended.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::end_of_sandbox",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "runs a process in a sandbox while the sandbox is ended",
    setting: |_| Setting::default().fresh(),
    permitting: None,
    denials: GONE_WITH_IT,
    run: |stage| Box::pin(run(stage)),
};

const GONE_WITH_IT: &[Denial] = &[Denial {
    sign: "gone",
    means: "every process ends with the sandbox",
}];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let sleep = |token: &str| Call::new(["sleep", token, "3000"]);
    let control_token = format!("{}-control", stage.token());
    let child = host::spawn(&stage.grounds().program(), &sleep(&control_token))?;
    let seen = wait_for(&control_token).await?;
    drop(child);
    let failure = (!seen).then(|| "the host's process was not seen".to_owned());
    stage.host_control_was(control("see a process of the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let token = format!("{}-attack", stage.token());
    let ended = stage
        .with_sandbox(async |sandbox| {
            let call = sleep(&token);
            let end = async {
                let seen = wait_for(&token).await?;
                sandbox.handle().kill().await?;
                let left = host::wait_gone(&token, GONE).await?;
                Ok::<_, Trouble>((seen, left))
            };
            // How the execution ends is not the question here.
            let (_, ended) = tokio::join!(sandbox.run(&call), end);
            ended
        })
        .await;
    let step = match ended {
        Ok(ended) => {
            let (seen, left) = ended?;
            stage.watched(
                "processes of the host after the sandbox's end",
                left.is_empty(),
            );
            host::kill_all_with(&token)?;
            if seen {
                Attempt::leak_if(!left.is_empty(), "gone")
            } else {
                Attempt::unclear("the sandbox's process was never seen on the host")
            }
        }
        Err(attempt) => attempt,
    };
    stage.attack_was(Step::new(sleep(&token).text(), step));
    Ok(())
}

async fn wait_for(token: &str) -> Result<bool, Trouble> {
    for _ in 0..100 {
        if !host::processes_with(token)?.is_empty() {
            return Ok(true);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(false)
}
