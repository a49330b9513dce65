//! Input for a program that has closed its standard input.

use std::time::Duration;

use sandbox_core::{ExecRequest, Stdin};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// How long the program goes on, and within what time the writer must get an error.
const RUNS: Duration = Duration::from_secs(20);
const KNOWN: Duration = Duration::from_secs(5);

/// More than all buffers between writer and program.
const LENGTH: usize = 8 << 20;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, "write to a closed input", async |sandbox| {
        written(sandbox).await
    })
    .await;
    context.no_host_effect("input does not affect the host");
    Ok(())
}

async fn written(sandbox: &ProbeSandbox) -> Deviation {
    let script = format!("exec 0<&-; sleep {}", RUNS.as_secs());
    let request = ExecRequest::shell(script).timeout(2 * RUNS);
    let mut execution = sandbox.handle().start(&request, Stdin::Piped).await?;
    let Some(mut stdin) = execution.take_stdin() else {
        return Ok(Some("there is no input to write to".into()));
    };
    let content = vec![b'x'; LENGTH];
    let written = timeout(KNOWN, stdin.write_all(&content)).await;
    execution.kill().await;
    let result = execution.wait().await?;
    Ok(match (written, result.outcome) {
        (Ok(Err(_)), Outcome::Signaled { .. }) => None,
        (Ok(Err(_)), outcome) => Some(format!("the program did not go on: {outcome}")),
        (Ok(Ok(())), _) => Some(format!("{LENGTH} bytes were written to nobody")),
        (Err(_), _) => Some(format!("the writer still waits after {KNOWN:?}")),
    })
}
