//! Signals and a kill, while nobody reads.

use std::time::Duration;

use sandbox_core::{ExecRequest, Execution, SandboxHandle, Stdin};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "exec::orders",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Behavior,
    summary: "sends a signal to one program and kills another, which floods an output that nobody reads",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    stage.host_control(&Call::new(["alive"])).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = |arguments: [&str; 3]| {
                let request = ExecRequest::new(sandbox.program()).args(arguments);
                request.timeout(Duration::from_secs(10))
            };
            let sleeper = request(["sleep", "", "9000"]);
            let flood = request(["emit", "60000000", "1"]);
            match order(sandbox.handle(), &sleeper, &flood).await {
                Ok(deviation) => deviation,
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    stage.attack_was(behavior("send orders", told));
    stage.nothing_to_watch("orders are no matter of the host");
    Ok(())
}

async fn order(
    sandbox: &SandboxHandle,
    sleeper: &ExecRequest,
    flood: &ExecRequest,
) -> sandbox_core::Result<Option<String>> {
    let mut execution = sandbox.start(sleeper, Stdin::Null).await?;
    execution.signal(15).await?;
    if let Some(deviation) = ended_by(&mut execution, 15).await? {
        return Ok(Some(deviation));
    }
    let mut execution = sandbox.start(flood, Stdin::Null).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    execution.kill().await;
    ended_by(&mut execution, 9).await
}

async fn ended_by(execution: &mut Execution, signal: i32) -> sandbox_core::Result<Option<String>> {
    let outcome = execution.wait().await?.outcome;
    let expected = Outcome::Signaled { signal };
    Ok((outcome != expected).then(|| format!("{outcome}, not {expected}")))
}
