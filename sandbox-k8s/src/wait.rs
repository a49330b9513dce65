//! Waits for a pod to run, based on the client's shared watch.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::TIER;
use crate::error::{Operation, cluster_error};
use crate::failure::{self, Progress};
use crate::made::Asked;
use crate::watch::{Change, Ticket};

/// How long the final look at a pod may take after the timeout.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// How long to wait for a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the pod to run.
    pub start: Duration,
    /// For a node with room.
    pub scheduling: Duration,
}

/// Waits until the pod's container runs, and returns the pod. Signals `placed` when a node is
/// assigned.
///
/// # Errors
///
/// If the pod differs from the `asked` one; as soon as the scheduler or the kubelet reports that it
/// cannot run; if the server refuses or does not answer; when the timeout is over.
pub(crate) async fn until_running(
    pods: &Api<Pod>,
    ticket: &mut Ticket,
    patience: Patience,
    asked: Option<&Asked>,
    placed: Option<oneshot::Sender<()>>,
) -> Result<Pod> {
    let begin = Instant::now();
    let mut wait = Wait {
        deadline: begin + patience.start,
        room_until: begin + patience.scheduling,
        no_room: None,
        last: None,
        asked,
        placed,
    };
    loop {
        let Ok(change) = timeout_at(wait.next_bound(), ticket.next()).await else {
            // The watch may have missed the change, so look at the pod itself.
            let asked = timeout(LAST_LOOK, pods.get(ticket.name())).await;
            return match asked.map_err(|_| wait.over())? {
                Ok(pod) if wait.look(&pod)? => Ok(pod),
                Ok(_) => Err(wait.over()),
                Err(error) => Err(cluster_error(Operation::GetPod, error)),
            };
        };
        match change {
            Change::Pod(pod) => {
                if wait.look(&pod)? {
                    return Ok(*pod);
                }
            }
            Change::Removed => return Err(removed()),
            Change::Refused(asked, status) => {
                return Err(cluster_error(asked, kube::Error::Api(status)));
            }
            Change::Silent(why) => {
                let context = format!("wait for pod: the API server does not answer: {why}");
                return Err(Error::unavailable(TIER, context, failure::SEE_CLUSTER));
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

/// State of a wait.
#[derive(Debug)]
struct Wait<'a> {
    deadline: Instant,
    room_until: Instant,
    /// The scheduler's message, while no node has room.
    no_room: Option<String>,
    /// The last reported state of the pod.
    last: Option<String>,
    /// The requested pod, which each observed state is compared with.
    asked: Option<&'a Asked>,
    /// Signalled when a node is assigned.
    placed: Option<oneshot::Sender<()>>,
}

impl Wait<'_> {
    /// Whether the pod runs.
    fn look(&mut self, pod: &Pod) -> Result<bool> {
        if let Some(asked) = self.asked {
            asked.check_later(pod)?;
        }
        self.last = pod.status.as_ref().and_then(state);
        self.no_room = None;
        let has_node = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        if let Some(placed) = self.placed.take_if(|_| has_node) {
            // The receiver may be gone.
            let _ = placed.send(());
        }
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

/// A short description of what a pod is doing.
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

    fn wait() -> Wait<'static> {
        let now = Instant::now();
        Wait {
            deadline: now + Duration::from_secs(60),
            room_until: now + Duration::from_secs(5),
            no_room: None,
            last: None,
            asked: None,
            placed: None,
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
