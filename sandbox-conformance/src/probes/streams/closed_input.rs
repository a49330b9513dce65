//! Input for a program that has closed its standard input.

use std::time::Duration;

use sandbox_core::{ExecRequest, Stdin};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// How long the program runs after it has closed its input, and when the writer must know by then.
const RUNS: Duration = Duration::from_secs(8);
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
    let script = format!("exec 0<&-; echo closed; sleep {}; echo end", RUNS.as_secs());
    let request = ExecRequest::shell(script).timeout(2 * RUNS);
    let mut execution = sandbox.handle().start(&request, Stdin::Piped).await?;
    let Some(mut stdin) = execution.take_stdin() else {
        return Ok(Some("there is no input to write to".into()));
    };
    let start = Instant::now();
    let content = vec![b'x'; LENGTH];
    let written = timeout(KNOWN, stdin.write_all(&content)).await;
    let took = start.elapsed();
    drop(stdin);
    let result = execution.wait().await?;
    Ok(match written {
        Err(_) => Some(format!("the writer still waits after {took:?}")),
        Ok(Ok(())) => Some(format!("{LENGTH} bytes were written to nobody")),
        Ok(Err(_)) if result.stdout_text() != "closed\nend\n" => Some(format!("{result:?}")),
        Ok(Err(_)) => None,
    })
}
