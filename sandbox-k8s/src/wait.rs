//! Waits for a pod to run, based on the client's shared watch.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::TIER;
use crate::error::{ClusterOperation, cluster_error};
use crate::failure::{self, PodProgress};
use crate::lowering::CONTAINER;
use crate::requested::RequestedPod;
use crate::watch::{PodChange, PodSubscription};

/// How long the final look at a pod may take after the timeout.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// How long to wait for a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTimeouts {
    /// For the pod to run.
    pub start: Duration,
    /// For a node with room.
    pub scheduling: Duration,
}

/// As [`until_running`], for an init container.
///
/// # Errors
///
/// As [`until_running`].
pub(crate) async fn until_step_runs(
    pods: &Api<Pod>,
    subscription: &mut PodSubscription,
    timeouts: StartTimeouts,
    requested: Option<&RequestedPod>,
    container: &'static str,
) -> Result<Pod> {
    let mut wait = PodWait::new(timeouts, requested, None);
    wait.container = container;
    wait.run(pods, subscription).await
}

/// Waits until the pod's container runs, and returns the pod. Signals `scheduled` when a node is
/// assigned.
///
/// # Errors
///
/// If the pod differs from the `requested` one; as soon as the scheduler or the kubelet reports that it
/// cannot run; if the server refuses or does not answer; when the timeout is over.
pub(crate) async fn until_running(
    pods: &Api<Pod>,
    subscription: &mut PodSubscription,
    timeouts: StartTimeouts,
    requested: Option<&RequestedPod>,
    scheduled: Option<oneshot::Sender<()>>,
) -> Result<Pod> {
    let mut wait = PodWait::new(timeouts, requested, scheduled);
    wait.run(pods, subscription).await
}

fn removed() -> Error {
    Error::new(
        ErrorKind::SandboxEnded,
        "start pod",
        "the pod was removed before it ran",
    )
    .on(TIER)
}

/// State of a wait.
#[derive(Debug)]
struct PodWait<'a> {
    /// The container that is to run.
    container: &'static str,
    deadline: Instant,
    room_until: Instant,
    /// The scheduler's message, while no node has room.
    no_room: Option<String>,
    /// The last reported state of the pod.
    last: Option<String>,
    /// The requested pod, which each observed state is compared with.
    requested: Option<&'a RequestedPod>,
    /// Signalled when a node is assigned.
    scheduled: Option<oneshot::Sender<()>>,
}

impl<'a> PodWait<'a> {
    fn new(
        timeouts: StartTimeouts,
        requested: Option<&'a RequestedPod>,
        scheduled: Option<oneshot::Sender<()>>,
    ) -> Self {
        let begin = Instant::now();
        Self {
            container: CONTAINER,
            deadline: begin + timeouts.start,
            room_until: begin + timeouts.scheduling,
            no_room: None,
            last: None,
            requested,
            scheduled,
        }
    }

    async fn run(&mut self, pods: &Api<Pod>, subscription: &mut PodSubscription) -> Result<Pod> {
        loop {
            let Ok(change) = timeout_at(self.next_bound(), subscription.next()).await else {
                // The watch may have missed the change, so look at the pod itself.
                let requested = timeout(LAST_LOOK, pods.get(subscription.name())).await;
                return match requested.map_err(|_| self.over())? {
                    Ok(pod) if self.look(&pod)? => Ok(pod),
                    Ok(_) => Err(self.over()),
                    Err(error) => Err(cluster_error(ClusterOperation::GetPod, error)),
                };
            };
            match change {
                PodChange::Pod(pod) => {
                    if self.look(&pod)? {
                        return Ok(*pod);
                    }
                }
                PodChange::Removed => return Err(removed()),
                PodChange::Refused(requested, status) => {
                    return Err(cluster_error(requested, kube::Error::Api(status)));
                }
                PodChange::Unreachable(why) => {
                    let context = format!("wait for pod: the API server does not answer: {why}");
                    return Err(Error::unavailable(TIER, context, failure::SEE_CLUSTER));
                }
            }
        }
    }

    /// Whether the pod runs.
    fn look(&mut self, pod: &Pod) -> Result<bool> {
        if let Some(requested) = self.requested {
            requested.check_later(pod)?;
        }
        self.last = pod.status.as_ref().and_then(state);
        self.no_room = None;
        let has_node = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        if let Some(scheduled) = self.scheduled.take_if(|_| has_node) {
            // The receiver may be gone.
            let _ = scheduled.send(());
        }
        match failure::progress_of(pod, self.container) {
            PodProgress::Running => Ok(true),
            PodProgress::Pending => Ok(false),
            PodProgress::Failed(error) => Err(error),
            PodProgress::Unschedulable(words) => {
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
            return failure::unschedulable_error(words);
        }
        let last = self.last.as_deref().unwrap_or("its status is unknown");
        let context = format!("the pod does not run in time: {last}");
        Error::new(ErrorKind::SetupFailed, "start pod", context)
            .on(TIER)
            .with_fix("look at its events (`kubectl get events`), or allow more time")
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

    fn wait() -> PodWait<'static> {
        let now = Instant::now();
        PodWait {
            container: CONTAINER,
            deadline: now + Duration::from_secs(60),
            room_until: now + Duration::from_secs(5),
            no_room: None,
            last: None,
            requested: None,
            scheduled: None,
        }
    }

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {}, "status": status})).expect("a pod")
    }

    #[tokio::test]
    async fn scheduling_timeout_applies_while_unschedulable() {
        let mut wait = wait();
        let full = json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu",
        }]});
        assert!(!wait.look(&pod(full)).expect("not yet"));
        assert_eq!(wait.next_bound(), wait.room_until);
        assert!(wait.over().to_string().contains("Unschedulable: no cpu"));
        let scheduled =
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
        assert!(!wait.look(&pod(scheduled)).expect("not yet"));
        assert_eq!(wait.next_bound(), wait.deadline);
        let text = wait.over().to_string();
        assert!(text.contains("Pending"), "{text}");
    }
}
