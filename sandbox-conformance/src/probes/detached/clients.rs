//! Later clients of a detached sandbox.

use std::time::Duration;

use sandbox_core::{DenialKind, ErrorKind, ExecRequest, SandboxClient, SandboxHandle, Stdin};

use super::{LIFETIME, in_detached};
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// How long executions may run on after the end of their client.
const GONE: Duration = Duration::from_secs(10);

/// The same where a client may come back after its connection was lost: the agent waits a minute.
const GONE_FOR_GOOD: Duration = Duration::from_secs(75);

/// The time limit of the program, and the lifetime of its sandbox. Neither may end it.
pub(super) const LONG: Duration = Duration::from_secs(180);

pub(super) async fn is_gone(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::controls(context).await?;
    let token = format!("{}-attack", context.token());
    let gone = context.client()?;
    let patience = if context.is_cluster() {
        GONE_FOR_GOOD
    } else {
        GONE
    };
    let deviation = in_detached(context, LONG, async |sandbox, name, client| {
        let sleep = Call::new(["sleep", &token, "170000"]).timeout(LONG);
        let request = sandbox.request(&sleep);
        start_and_vanish(gone, name.to_owned(), request, token.clone()).await?;
        let left = host::wait_until_gone(&token, patience).await?;
        if !left.is_empty() {
            return Ok(Some("its program still runs".to_owned()));
        }
        super::alive(client, name, sandbox.program()).await
    })
    .await?;
    context.record_attack(behavior("end a client's connections", deviation));
    context.check_host(
        "processes of the host after the client's end",
        host::processes_with(&token)?.is_empty(),
    );
    host::kill_all_with(&token)?;
    Ok(())
}

/// Starts a program from a runtime of its own, and ends all connections of that runtime once the
/// host sees the program. Nothing is told to the sandbox.
async fn start_and_vanish(
    client: SandboxClient,
    name: String,
    request: ExecRequest,
    token: String,
) -> Result<(), ProbeError> {
    let vanish = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let seen = runtime.block_on(async {
            let handle = client.get(&name).await?;
            let execution = handle.start(&request, Stdin::Piped).await?;
            let seen = host::wait_for_process(&token).await?.is_some();
            // Dropping it would ask for the program's end.
            std::mem::forget(execution);
            std::mem::forget(handle);
            Ok::<_, ProbeError>(seen)
        });
        runtime.shutdown_background();
        seen
    };
    let seen = tokio::task::spawn_blocking(vanish)
        .await
        .map_err(|error| ProbeError::new(error.to_string()))?;
    match seen? {
        true => Ok(()),
        false => Err(ProbeError::new("the program was never seen on the host")),
    }
}

/// How a program ended, as reported to a client, or why it did not start.
type Told = Result<(Outcome, Vec<DenialKind>), ErrorKind>;

pub(super) async fn same_outcomes(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let calls = [
        Call::new(["exit", "7"]),
        Call::new(["exit", "255"]),
        Call::new(["raise", "9"]),
        Call::new(["raise", "11"]),
        Call::new(["sleep", "", "9000"]),
        Call::new(["memory", "16"]),
        Call::new(["memory", "128"]),
        // Nobody has this address. A kernel may count the denial.
        Call::new(["tcp", "", "192.0.2.1/9"]),
    ];
    let host = host::run(&context.fixture().program(), &calls[6]).await?;
    let failure = (!host.attempt(None).is_success()).then(|| host.outcome.to_string());
    context.record_host_control(control("use 128 MiB on the host", failure));
    context.allow_control(&calls[5]).await;
    let usual = context
        .with_sandbox(async |sandbox| told(sandbox.handle(), sandbox, &calls).await)
        .await;
    let usual = match usual {
        Ok(usual) => usual?,
        Err(declined) => {
            context.record_attack(behavior("end programs", Err(declined)));
            return Ok(());
        }
    };
    let deviation = in_detached(context, LIFETIME, async |sandbox, name, client| {
        let later = client.get(name).await?;
        let later = told(&later, &sandbox, &calls).await?;
        let mut both = usual.iter().zip(&later);
        let different = both.find(|(usual, later)| usual != later);
        Ok(different.map(|(usual, later)| format!("{later:?}, not {usual:?}")))
    })
    .await?;
    context.record_attack(behavior("end programs through a second client", deviation));
    context.no_host_effect("how programs end does not affect the host");
    Ok(())
}

async fn told(
    handle: &SandboxHandle,
    sandbox: &ProbeSandbox,
    calls: &[Call],
) -> sandbox_core::Result<Vec<Told>> {
    let mut told = Vec::new();
    for call in calls {
        let request = sandbox.request(call).timeout(Duration::from_secs(4));
        let result = handle.exec(&request).await?;
        let kinds = result.denials.iter().map(|denial| denial.kind);
        told.push(Ok((result.outcome.clone(), kinds.collect())));
    }
    let missing = handle.exec(&ExecRequest::new("/nonexistent/program")).await;
    told.push(match missing {
        Err(error) => Err(error.kind()),
        Ok(result) => Ok((result.outcome, Vec::new())),
    });
    Ok(told)
}
