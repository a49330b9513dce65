//! The end of standard input while output continues.

use sandbox_core::{ExecEvent, ExecRequest, SandboxHandle, Stdin};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

use crate::probes::prelude::*;

/// Without the end of its input, the program would wait forever.
const BOUND: Duration = Duration::from_secs(10);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["echo"]).stdin("word");
    let run = host::run(&context.fixture().program(), &call).await?;
    let failure = (run.stdout != b"word").then(|| "the host's echo differs".to_owned());
    context.record_host_control(control("echo on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let request = ExecRequest::new(sandbox.program()).args(["echo"]);
            let request = request.timeout(BOUND);
            match talk(sandbox.handle(), &request).await {
                Ok(deviation) => deviation,
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    context.record_attack(behavior("talk, then close", deviation));
    context.no_host_effect("input does not affect the host");
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
            match execution.next_event().await? {
                Some(ExecEvent::Stdout(bytes)) if bytes == word => break,
                Some(ExecEvent::Started) => {}
                other => return Ok(Some(format!("{other:?} after {word}"))),
            }
        }
    }
    drop(stdin);
    let result = execution.wait().await?;
    Ok((!result.success()).then(|| result.outcome.to_string()))
}
