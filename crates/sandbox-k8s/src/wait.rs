//! Waiting for a pod to run, by one watch that begins where its creation ended: nothing is missed, and nothing is asked twice.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout_at};

use crate::TIER;
use crate::error::{Operation, cluster_error};
use crate::failure::{self, Progress};

/// The longest that a server keeps a watch open, in seconds; then there is another one.
const WATCH: u32 = 290;
/// What a server calls a version that it no longer remembers.
const GONE: u16 = 410;

/// Between a watch that ended and the next: a server that ends each at once is not asked all the time.
const PAUSE: Duration = Duration::from_millis(200);

/// How long to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the whole.
    pub start: Duration,
    /// For a node with room.
    pub scheduling: Duration,
}

/// Waits until the pod's container runs.
///
/// # Errors
///
/// As soon as it is known that it will not, in the scheduler's or the kubelet's words; at the latest when the time is over.
pub(crate) async fn until_running(pods: &Api<Pod>, made: &Pod, patience: Patience) -> Result<()> {
    let begin = Instant::now();
    let mut wait = Wait {
        deadline: begin + patience.start,
        room_until: begin + patience.scheduling,
        no_room: None,
        last: None,
    };
    let name = made.metadata.name.clone().unwrap_or_default();
    let mut version = made.metadata.resource_version.clone();
    loop {
        if Instant::now() >= wait.next_bound() {
            return Err(wait.over());
        }
        let from = match &version {
            Some(version) => version.clone(),
            // What has happened meanwhile is looked at, and watched on from there.
            None => {
                let found = pods
                    .get(&name)
                    .await
                    .map_err(|error| cluster_error(Operation::GetPod, error))?;
                if wait.look(&found)? {
                    return Ok(());
                }
                found.metadata.resource_version.clone().unwrap_or_default()
            }
        };
        version = None;
        let parameters = WatchParams::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(WATCH);
        let watch = pods
            .watch(&parameters, &from)
            .await
            .map_err(|error| cluster_error(Operation::WatchPod, error))?;
        let mut events = watch.boxed();
        loop {
            let Ok(event) = timeout_at(wait.next_bound(), events.try_next()).await else {
                return Err(wait.over());
            };
            let pod = match event {
                Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => pod,
                Ok(Some(WatchEvent::Deleted(_))) => return Err(removed()),
                Ok(Some(WatchEvent::Bookmark(_))) => continue,
                Ok(Some(WatchEvent::Error(status))) if status.code == GONE => break,
                Ok(Some(WatchEvent::Error(status))) => {
                    return Err(cluster_error(Operation::WatchPod, kube::Error::Api(status)));
                }
                // The server has closed it, or was restarted: the next request shows which.
                Ok(None) | Err(_) => {
                    sleep(PAUSE).await;
                    break;
                }
            };
            if wait.look(&pod)? {
                return Ok(());
            }
        }
    }
}

fn removed() -> Error {
    Error::new(
        ErrorKind::SandboxEnded,
        "start pod",
        "somebody has removed the pod before it ran",
    )
    .on(TIER)
}

/// What is known while waiting.
#[derive(Debug)]
struct Wait {
    deadline: Instant,
    room_until: Instant,
    /// The scheduler's words, while no node has room.
    no_room: Option<String>,
    /// What the pod's state was last called.
    last: Option<String>,
}

impl Wait {
    /// Whether the pod runs.
    fn look(&mut self, pod: &Pod) -> Result<bool> {
        self.last = pod.status.as_ref().and_then(state);
        self.no_room = None;
        match failure::progress(pod) {
            Progress::Running => Ok(true),
            Progress::Coming => Ok(false),
            Progress::Failed(error) => Err(error),
            Progress::Unschedulable(words) => {
                self.no_room = Some(words);
                Ok(false)
            }
        }
    }

    fn next_bound(&self) -> Instant {
        match self.no_room {
            Some(_) => self.deadline.min(self.room_until),
            None => self.deadline,
        }
    }

    fn over(&self) -> Error {
        if let Some(words) = &self.no_room {
            return failure::no_room(words);
        }
        let last = self.last.as_deref().unwrap_or("nobody has looked at it");
        let context = format!("the pod does not run in time: {last}");
        Error::new(ErrorKind::SetupFailed, "start pod", context)
            .on(TIER)
            .with_fix("see what its events say (`kubectl get events`), or give it more time")
    }
}

/// What a pod is doing, in few words.
fn state(status: &k8s_openapi::api::core::v1::PodStatus) -> Option<String> {
    let init = status.init_container_statuses.iter().flatten();
    let main = status.container_statuses.iter().flatten();
    let reason = init.chain(main).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        waiting.reason.clone()
    });
    let phase = status.phase.clone()?;
    Some(match reason {
        Some(reason) => format!("{phase}, {reason}"),
        None => phase,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wait() -> Wait {
        let now = Instant::now();
        Wait {
            deadline: now + Duration::from_secs(60),
            room_until: now + Duration::from_secs(5),
            no_room: None,
            last: None,
        }
    }

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {}, "status": status})).expect("a pod")
    }

    #[tokio::test]
    async fn no_room_shortens_the_wait_until_there_is_some() {
        let mut wait = wait();
        let full = json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu",
        }]});
        assert!(!wait.look(&pod(full)).expect("not yet"));
        assert_eq!(wait.next_bound(), wait.room_until);
        assert!(wait.over().to_string().contains("Unschedulable: no cpu"));
        let placed =
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
        assert!(!wait.look(&pod(placed)).expect("not yet"));
        assert_eq!(wait.next_bound(), wait.deadline);
        let text = wait.over().to_string();
        assert!(text.contains("Pending"), "{text}");
    }
}
