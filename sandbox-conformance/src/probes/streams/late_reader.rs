//! A reader that takes its time.

use std::time::Duration;

use sandbox_core::{ExecRequest, SandboxHandle, Stdin};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::late_reader",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "reads nothing until long after the program's time limit, then wants its output and its exit code",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// Fits on the way, so that the program does not wait for its reader.
const LENGTH: usize = 100_000;

/// The program's limit, and how long nobody reads: longer than any grace on top.
const LIMIT: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(6);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    stage.host_control(&Call::new(["alive"])).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let length = LENGTH.to_string();
            let request = ExecRequest::new(sandbox.program()).args(["emit", &length, "1"]);
            read_late(sandbox.handle(), &request.timeout(LIMIT)).await
        })
        .await;
    stage.attack_was(behavior("read late", told));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}

async fn read_late(sandbox: &SandboxHandle, request: &ExecRequest) -> Option<String> {
    let mut execution = match sandbox.start(request, Stdin::Null).await {
        Ok(execution) => execution,
        Err(error) => return Some(error.to_string()),
    };
    tokio::time::sleep(LATE).await;
    match execution.wait().await {
        Ok(result) if result.ok() && result.stdout.bytes.len() == LENGTH => None,
        Ok(result) => Some(format!(
            "{}, {} bytes",
            result.outcome,
            result.stdout.bytes.len()
        )),
        Err(error) => Some(error.to_string()),
    }
}
