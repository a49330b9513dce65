//! The executions of a handle that is dropped, beside those of another one.

use std::time::Duration;

use sandbox_core::{ErrorKind, SandboxHandle, Stdin, TerminalSize};

use super::{LIFETIME, alive, busy, in_detached};
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// How long its executions may run on.
const GONE_BY: Duration = Duration::from_secs(10);

/// How each execution is started: without input, with one that stays open, on a terminal.
const WAYS: [&str; 3] = ["plain", "input", "terminal"];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::controls(context).await?;
    let token = context.token().to_owned();
    let deviation = in_detached(context, LIFETIME, async |sandbox, name, client| {
        let others = format!("{token}-others");
        let _other = busy(&sandbox, &others).await?;
        let handle = client.get(name).await?;
        let mut executions = Vec::new();
        for way in WAYS {
            let token = format!("{token}-{way}");
            let Some(execution) = started(&handle, &sandbox, way, &token).await? else {
                continue;
            };
            if host::wait_for_process(&token).await?.is_none() {
                return Err(ProbeError::new("the program was never seen on the host"));
            }
            executions.push((execution, token));
        }
        drop(handle);
        for (mut execution, token) in executions {
            if !host::wait_until_gone(&token, GONE_BY).await?.is_empty() {
                return Ok(Some(format!("{token} still runs")));
            }
            if let Ok(result) = execution.wait().await {
                return Ok(Some(format!("{token} ended: {}", result.outcome)));
            }
        }
        if host::processes_with(&others)?.is_empty() {
            return Ok(Some("the other handle's program has ended too".to_owned()));
        }
        alive(client, name, sandbox.program()).await
    })
    .await?;
    context.record_attack(behavior("drop one of two handles", deviation));
    context.check_host(
        "processes of the host after the sandbox was removed",
        host::wait_until_gone(&token, GONE_BY).await?.is_empty(),
    );
    host::kill_all_with(&token)?;
    Ok(())
}

/// Starts a program that runs for half a minute. `None` where there is no terminal.
async fn started(
    handle: &SandboxHandle,
    sandbox: &ProbeSandbox,
    way: &str,
    token: &str,
) -> sandbox_core::Result<Option<sandbox_core::Execution>> {
    let mut request = sandbox.request(&Call::new(["sleep", token, "30000"]));
    let stdin = match way {
        "plain" => Stdin::Null,
        _ => Stdin::Piped,
    };
    if way == "terminal" {
        request = request.terminal(TerminalSize::default());
    }
    match handle.start(&request, stdin).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        started => started.map(Some),
    }
}
