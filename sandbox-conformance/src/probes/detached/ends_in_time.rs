//! The end of a detached sandbox's time to live.

use sandbox_core::{ErrorKind, SandboxClient, SandboxState};
use std::time::{Duration, Instant};

use crate::evidence::Attempt;
use crate::probes::prelude::*;

/// Lifetimes to try in turn, until one is long enough for code to run. A tier may count from the
/// start of the creation, which takes seconds on a cluster. Each is below an execution's time
/// limit.
pub(in crate::probes) const LIFETIMES: [Duration; 3] = [
    Duration::from_secs(3),
    Duration::from_secs(9),
    Duration::from_secs(25),
];

/// How much too early the end may come. Clusters count from a whole second.
const EARLY: Duration = Duration::from_secs(1);

/// How much too late the end may come. A kubelet checks about once a second.
pub(in crate::probes) const LATE: Duration = Duration::from_secs(9);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::controls(context).await?;
    let token = format!("{}-attack", context.token());
    let deviation = end_in_time(context, &token).await?;
    context.record_attack(behavior("wait for its end", deviation));
    context.check_host(
        "processes of the host after the time to live",
        host::processes_with(&token)?.is_empty(),
    );
    Ok(())
}

async fn end_in_time(
    context: &mut ProbeContext,
    token: &str,
) -> Result<Result<Option<String>, Attempt>, ProbeError> {
    let mut deviation = Err(ProbeError::new("no lifetime was tried"));
    for lifetime in LIFETIMES {
        let start = Instant::now();
        let mut entered = false;
        deviation = super::in_detached(context, lifetime, async |sandbox, name, client| {
            let mut execution = super::busy(&sandbox, token).await?;
            entered = true;
            // How the execution ends is not tested here.
            let ended = tokio::time::timeout(lifetime + LATE, execution.wait()).await;
            if ended.is_err() {
                return Ok(Some(format!("it still runs after {:?}", start.elapsed())));
            }
            left(client, name, token).await
        })
        .await;
        if entered || start.elapsed() + EARLY < lifetime {
            break;
        }
    }
    deviation
}

/// Checks what is left. A tier may keep a record that the sandbox has ended; it must report that,
/// and prune it.
async fn left(
    client: &SandboxClient,
    name: &str,
    token: &str,
) -> Result<Option<String>, ProbeError> {
    if let Err(error) = client.get(name).await
        && error.kind() == ErrorKind::SandboxEnded
    {
        let listed = client.list().await?;
        let mut ours = listed.iter().filter(|info| info.name == name);
        if ours.any(|info| info.state != SandboxState::Ended) {
            return Ok(Some("the list does not show that it has ended".to_owned()));
        }
        client.prune().await?;
    }
    super::remains(client, name, token).await
}
