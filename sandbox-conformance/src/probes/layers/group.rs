//! A cgroup limit, read from the host because another limit may hide it.

use std::time::Duration;

use super::{Layer, is_reported};
use crate::host_cgroups::{GroupLimit, smallest_limit};
use crate::probes::prelude::*;

/// The sign of a process with a cgroup limit.
pub(super) const LIMITED: &str = "bounded";

/// Reads the limit of a process inside, if the report names the layer. A limit above `most` counts
/// as none.
pub(super) async fn call_without_limit(
    context: &mut ProbeContext,
    layer: Layer,
    limit: GroupLimit,
    most: u64,
) -> Result<(), ProbeError> {
    if !is_reported(context, layer).await? {
        return Ok(());
    }
    let action = format!("read {} of the process on the host", limit.controller);
    let sleep = |token: &str| Call::new(["sleep", token, "5000"]);
    let (hosts, own) = ["control", "own"]
        .map(|place| format!("{}-{place}", context.token()))
        .into();
    let child = host::spawn(&context.fixture().program(), &sleep(&hosts)).await?;
    let control = find_limit(&hosts, limit).await?;
    drop(child);
    context.record_host_control(Step::new(&action, judged(control, most)));
    context.allow_control(&Call::new(["alive"])).await;
    let seen = context
        .with_sandbox(async |sandbox| {
            let request = sandbox.request(&sleep(&own));
            // Dropping it ends the process.
            let running = sandbox
                .handle()
                .start(&request, sandbox_core::Stdin::Null)
                .await;
            let seen = find_limit(&own, limit).await;
            running.map(drop).map(|()| seen)
        })
        .await;
    let attempt = match seen {
        Err(declined) => declined,
        Ok(Err(error)) => Attempt::unclear(error.to_string()),
        Ok(Ok(found)) => judged(found?, most),
    };
    context.record_attack(Step::new(action, attempt));
    context.no_host_effect("the probe only reads the limit on the host");
    Ok(())
}

/// The limit, or `None` if the process was not seen.
type FoundLimit = Option<Option<u64>>;

fn judged(find_limit: FoundLimit, most: u64) -> Attempt {
    match find_limit {
        None => Attempt::unclear("the process was never seen on the host"),
        Some(Some(limit)) if limit <= most => Attempt::blocked([LIMITED]),
        Some(limit) => Attempt::Succeeded {
            value: limit.map_or("no limit".into(), |limit| limit.to_string()),
        },
    }
}

async fn find_limit(token: &str, limit: GroupLimit) -> Result<FoundLimit, ProbeError> {
    for _ in 0..100 {
        if let Some(pid) = host::processes_with(token)?.into_iter().next() {
            return smallest_limit(pid, limit).map(Some);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(None)
}
