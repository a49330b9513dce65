//! The subcommands.

mod audit;
mod batch;
mod carrier;
pub mod check;
mod check_all;
pub mod commit;
pub mod completions;
pub mod config;
pub mod conformance;
pub mod cp;
pub mod create;
mod detached;
pub mod doctor;
pub mod egress;
pub mod end;
pub mod exec;
pub mod export;
pub mod image;
pub mod languages;
pub mod logs;
pub mod ls;
pub mod man;
pub mod matrix;
pub mod mcp;
pub mod policy;
pub mod run;
pub mod scan;
pub mod stats;
pub mod why;

use std::future::Future;
use std::time::{Duration, Instant};

use sandbox::registry::Registration;
use sandbox::{SandboxClient, SandboxHandle};
use tokio::runtime::{Builder, Runtime};

use crate::command_error::{CommandError, Outcome};
use crate::print_status;
use audit::AuditOption;
use detached::TierOption;

/// A runtime on this thread: one sandbox needs no more, and threads would cost start-up time.
fn runtime() -> Result<Runtime, CommandError> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::io("starting", &error))
}

/// How long a command waits at its end for removals of its backend. Longer than a backend takes for
/// one removal on an engine under load: at most 20 s.
const REMOVAL_TIME_LIMIT: Duration = Duration::from_secs(30);

/// After this time the command says what it waits for.
const REMOVAL_NOTICE: Duration = Duration::from_secs(3);

/// Waits until the backend has removed the sandboxes of this process: removals end with the
/// process. Another signal ends the wait.
async fn settle(client: &SandboxClient) {
    let signal = async {
        match run::signals::Signals::listen() {
            Ok(mut signals) => signals.next().await,
            Err(_) => std::future::pending().await,
        }
    };
    let start = Instant::now();
    let limit = async {
        tokio::time::sleep(REMOVAL_NOTICE).await;
        print_status(format_args!(
            "{}: removing a sandbox; another signal ends the wait",
            client.tier()
        ));
        tokio::time::sleep(REMOVAL_TIME_LIMIT - REMOVAL_NOTICE).await;
    };
    tokio::select! {
        biased;
        () = client.settle() => return,
        _ = signal => {}
        () = limit => {}
    }
    print_status(format_args!(
        "warning: {}: the removal of a sandbox is not finished after {} s; fix: run `sandbox prune`",
        client.tier(),
        start.elapsed().as_secs()
    ));
}

/// Works with a detached sandbox, then disconnects before the process ends: its agent serves only a
/// few clients at once. The work also gets the sandbox's tier.
async fn in_sandbox<T>(
    tier: &TierOption,
    name: &str,
    audit: &AuditOption,
    work: impl AsyncFnOnce(&SandboxHandle, &'static Registration) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let audit = audit.open()?;
    let (located, sandbox) = tier.get(name, audit.as_ref()).await?;
    let result = work(&sandbox, located.tier).await;
    drop(sandbox);
    settle(&located.client).await;
    result
}

/// As [`in_sandbox`], until a signal interrupts the command.
fn until_interrupted(
    tier: &TierOption,
    name: &str,
    show: impl AsyncFnOnce(&SandboxHandle) -> Outcome,
) -> Outcome {
    block_on(async {
        let mut signals = run::signals::Signals::listen()?;
        let audit = AuditOption::default();
        let work = in_sandbox(tier, name, &audit, async |sandbox, _| show(sandbox).await);
        tokio::select! {
            outcome = work => outcome,
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    })?
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, CommandError> {
    Ok(runtime()?.block_on(future))
}
