//! Shapes that many probes share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::evidence::{Attempt, Step};
use crate::grounds::Grounds;
use crate::listeners::Listener;
use crate::probe::{Setting, Trouble};
use crate::program::Call;
use crate::stage::Stage;

/// Every default.
#[must_use]
pub fn plain(_: &Grounds) -> Setting {
    Setting::default()
}

/// The read root and the write root.
#[must_use]
pub fn rooted(grounds: &Grounds) -> Setting {
    grounds.rooted()
}

/// The read root and the write root, where the backend takes folders of this host.
#[must_use]
pub fn rooted_if_taken(grounds: &Grounds) -> Setting {
    grounds.rooted().roots_if_taken()
}

/// A call that reaches a listener of the host without a sandbox, and must not reach it from one.
pub async fn reach(
    stage: &mut Stage,
    listener: &Listener,
    call: Call,
    permitted: Call,
) -> Result<(), Trouble> {
    stage.host_control(&call).await?;
    let before = listener.hits();
    stage.allow_control(&permitted).await;
    stage.attack(&call).await;
    stage.watched("messages at the host's listener", listener.hits() == before);
    Ok(())
}

/// As [`reach`], by an address. On a cluster a pod with the whole network has to reach this host, else nothing is shown. A time-out is
/// tried again: where a bridge changes its hardware address, or an address comes to another pod, nobody is reached for as long as
/// neighbors remember the one before.
pub async fn reach_address(
    stage: &mut Stage,
    listener: &Listener,
    call: Call,
    permitted: Call,
) -> Result<(), Trouble> {
    reach(stage, listener, call.clone(), permitted).await?;
    for _ in 0..AGAIN {
        if !stage.is_cluster() || !stage.attack_ended_by("ETIMEDOUT") {
            break;
        }
        tokio::time::sleep(FORGOTTEN).await;
        stage.attack(&call).await;
    }
    stage.reachable_with_network(&call).await
}

/// How often an address is tried again, and after how long each time: longer in all than a kernel remembers a neighbor.
const AGAIN: u32 = 6;
const FORGOTTEN: Duration = Duration::from_secs(5);

/// The same call on the host and as the attack; `control` is what the policy permits. Nothing of the host can change by it.
pub async fn same_call(stage: &mut Stage, control: Call, call: Call) -> Result<(), Trouble> {
    stage.host_control(&call).await?;
    stage.allow_control(&control).await;
    stage.attack(&call).await;
    stage.nothing_to_watch("the call leaves no trace on the host");
    Ok(())
}

/// As [`same_call`], where the sandbox's code need only run at all.
pub async fn kernel_call(stage: &mut Stage, call: Call) -> Result<(), Trouble> {
    same_call(stage, Call::new(["alive"]), call).await
}

/// A limit: `within` fits, `beyond` does not, and on the host it does.
pub async fn limit(stage: &mut Stage, within: Call, beyond: Call) -> Result<(), Trouble> {
    stage.host_control(&beyond).await?;
    stage.allow_control(&within).await;
    stage.attack(&beyond).await;
    stage.nothing_to_watch("the limit is the sandbox's own");
    Ok(())
}

/// What a step shows when a behaviour is tested: `deviation` says what was wrong, `None` that all was as documented.
#[must_use]
pub fn behavior(action: &str, deviation: Result<Option<String>, Attempt>) -> Step {
    let attempt = match deviation {
        Ok(None) => Attempt::blocked(["held"]),
        Ok(Some(value)) => Attempt::Succeeded { value },
        Err(attempt) => attempt,
    };
    Step::new(action, attempt)
}

/// What a control shows: `failure` says what was wrong.
#[must_use]
pub fn control(action: &str, failure: Option<String>) -> Step {
    Step::new(
        action,
        match failure {
            None => Attempt::succeeded(),
            Some(detail) => Attempt::unclear(detail),
        },
    )
}

/// The file of this name anywhere below the folder.
#[must_use]
pub fn found_below(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        if entry.file_name() == name {
            return Some(entry.path());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(found) = found_below(&entry.path(), name)
        {
            return Some(found);
        }
    }
    None
}

/// How long what an attack leaves behind may be seen before it counts as a survivor.
pub const GONE: Duration = Duration::from_millis(500);
