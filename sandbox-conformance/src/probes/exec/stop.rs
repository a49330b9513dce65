//! The time that programs have to end.

use sandbox_core::{ExecEvent, ExecRequest, SandboxHandle, Stdin};

use crate::probes::prelude::*;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, "stop it", async |sandbox| {
        stop(sandbox.handle()).await
    })
    .await;
    context.no_host_effect("the program only writes");
    Ok(())
}

async fn stop(sandbox: &SandboxHandle) -> Deviation {
    let script =
        "trap 'sleep 0.5; echo ended; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let request = ExecRequest::shell(script);
    let mut execution = sandbox.start(&request, Stdin::Null).await?;
    let mut text = String::new();
    while !text.contains("ready") {
        match execution.next_event().await? {
            Some(ExecEvent::Stdout(bytes)) => text += &String::from_utf8_lossy(&bytes),
            Some(ExecEvent::Started) => {}
            other => return Ok(Some(format!("{other:?}"))),
        }
    }
    let (stopped, result) = tokio::join!(sandbox.stop(), execution.wait());
    stopped?;
    let result = result?;
    text += &result.stdout_text();
    let is_right = text.ends_with("ended\n") && result.outcome == Outcome::Exited { code: 3 };
    Ok((!is_right).then(|| format!("{text:?}, {}", result.outcome)))
}
