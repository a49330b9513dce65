//! The subcommands.

pub mod check;
mod check_all;
pub mod commit;
pub mod conformance;
pub mod cp;
pub mod create;
pub mod doctor;
pub mod end;
pub mod exec;
pub mod image;
mod kept;
pub mod logs;
pub mod ls;
pub mod matrix;
pub mod policy;
pub mod run;

use std::future::Future;
use std::time::Duration;

use sandbox::{SandboxClient, SandboxHandle};
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;
use crate::say;

/// A runtime on this thread: one sandbox needs no more, and threads would cost start-up time.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))
}

/// How long a command that has ended waits for what its backend still removes.
const REMOVAL: Duration = Duration::from_secs(5);

/// Waits for what the backend still removes of a sandbox that this process had, or was about to have: nothing does it once the process
/// has ended.
async fn settle(client: &SandboxClient) {
    if tokio::time::timeout(REMOVAL, client.settle())
        .await
        .is_err()
    {
        say(format_args!(
            "warning: {} still removes what is left of a sandbox after {REMOVAL:?}; the next command, or `sandbox prune`, goes on with it",
            client.tier()
        ));
    }
}

/// Does something with a detached sandbox. Its agent serves few clients at once, so it hears that this one has gone before the process
/// ends.
async fn in_sandbox<T>(
    client: &SandboxClient,
    name: &str,
    work: impl AsyncFnOnce(&SandboxHandle) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let sandbox = client.get(name).await?;
    let done = work(&sandbox).await;
    drop(sandbox);
    settle(client).await;
    done
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(runtime()?.block_on(future))
}
