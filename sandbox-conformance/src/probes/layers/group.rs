//! A limit of control groups that stands behind another limit: read from the host.

use std::time::Duration;

use super::named;
use crate::host_groups::{GroupLimit, least};
use crate::probes::prelude::*;

/// The sign of a process that a group bounds.
pub(super) const BOUNDED: &str = "bounded";

/// Looks up the limit of a process inside, where the report names the layer; more than `most` is none.
pub(super) async fn unbounded(
    stage: &mut Stage,
    layer: &str,
    limit: GroupLimit,
    most: u64,
) -> Result<(), Trouble> {
    if !named(stage, layer).await? {
        return Ok(());
    }
    let action = format!("read {} of the process on the host", limit.controller);
    let sleep = |token: &str| Call::new(["sleep", token, "5000"]);
    let (hosts, own) = ["control", "own"]
        .map(|place| format!("{}-{place}", stage.token()))
        .into();
    let child = host::spawn(&stage.grounds().program(), &sleep(&hosts))?;
    let control = bound(&hosts, limit).await?;
    drop(child);
    stage.host_control_was(Step::new(&action, judged(control, most)));
    stage.allow_control(&Call::new(["alive"])).await;
    let seen = stage
        .with_sandbox(async |sandbox| {
            let request = sandbox.request(&sleep(&own));
            // Dropping it ends it.
            let running = sandbox
                .handle()
                .start(&request, sandbox_core::Stdin::Null)
                .await;
            let seen = bound(&own, limit).await;
            running.map(drop).map(|()| seen)
        })
        .await;
    let attempt = match seen {
        Err(declined) => declined,
        Ok(Err(error)) => Attempt::unclear(error.to_string()),
        Ok(Ok(found)) => judged(found?, most),
    };
    stage.attack_was(Step::new(action, attempt));
    stage.nothing_to_watch("the host is where it is read");
    Ok(())
}

/// What is known of the limit: `None` before the process was seen.
type Bound = Option<Option<u64>>;

fn judged(bound: Bound, most: u64) -> Attempt {
    match bound {
        None => Attempt::unclear("the process was never seen on the host"),
        Some(Some(limit)) if limit <= most => Attempt::blocked([BOUNDED]),
        Some(limit) => Attempt::Succeeded {
            value: limit.map_or("no limit".into(), |limit| limit.to_string()),
        },
    }
}

async fn bound(token: &str, limit: GroupLimit) -> Result<Bound, Trouble> {
    for _ in 0..100 {
        if let Some(pid) = host::processes_with(token)?.into_iter().next() {
            return least(pid, limit).map(Some);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(None)
}
