//! The time that programs have to end.

use sandbox_core::spi::{Flow, OutputSink};
use sandbox_core::{ExecEvent, ExecRequest, OutputStream, SandboxHandle, Stdin};

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
    let mut log = Log(String::new());
    let (followed, stopped, result) = tokio::join!(
        sandbox.follow_logs(None, &mut log),
        sandbox.stop(),
        execution.wait()
    );
    followed?;
    stopped?;
    let result = result?;
    text += &result.stdout_text();
    let is_right = text.ends_with("ended\n") && result.outcome == Outcome::Exited { code: 3 };
    if is_right && !log.0.ends_with("ended\n") {
        return Ok(Some(format!("its log ends with {:?}", log.0)));
    }
    Ok((!is_right).then(|| format!("{text:?}, {}", result.outcome)))
}

/// What a follower of the log is shown.
struct Log(String);

#[async_trait::async_trait]
impl OutputSink for Log {
    async fn write(&mut self, _: OutputStream, bytes: &[u8]) -> Flow {
        self.0 += &String::from_utf8_lossy(bytes);
        Flow::Continue
    }
}
