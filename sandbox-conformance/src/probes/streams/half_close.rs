//! The end of the input, while the output goes on.

use std::time::Duration;

use sandbox_core::{ExecEvent, ExecRequest, SandboxHandle, Stdin};
use tokio::io::AsyncWriteExt;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::half_close",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "talks to a program word by word, closes its input, and wants the rest and the exit code",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// A program that got no end of its input would wait for ever.
const BOUND: Duration = Duration::from_secs(10);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["echo"]).stdin("word");
    let run = host::run(&stage.grounds().program(), &call).await?;
    let failure = (run.stdout != b"word").then(|| "the host's echo differs".to_owned());
    stage.host_control_was(control("echo on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = ExecRequest::new(sandbox.program()).args(["echo"]);
            let request = request.timeout(BOUND);
            match talk(sandbox.handle(), &request).await {
                Ok(deviation) => deviation,
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    stage.attack_was(behavior("talk, then close", told));
    stage.nothing_to_watch("input is no matter of the host");
    Ok(())
}

async fn talk(
    sandbox: &SandboxHandle,
    request: &ExecRequest,
) -> sandbox_core::Result<Option<String>> {
    let mut execution = sandbox.start(request, Stdin::Piped).await?;
    let Some(mut stdin) = execution.take_stdin() else {
        return Ok(Some("there is no input to write to".into()));
    };
    for word in ["one", "two"] {
        if let Err(error) = stdin.write_all(word.as_bytes()).await {
            return Ok(Some(error.to_string()));
        }
        loop {
            match execution.next().await? {
                Some(ExecEvent::Stdout(bytes)) if bytes == word => break,
                Some(ExecEvent::Started) => {}
                other => return Ok(Some(format!("{other:?} after {word}"))),
            }
        }
    }
    drop(stdin);
    let result = execution.wait().await?;
    Ok((!result.ok()).then(|| result.outcome.to_string()))
}
