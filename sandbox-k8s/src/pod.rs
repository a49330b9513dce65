//! A pod that is ours: made so that none is lost, and removed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::Background;
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::error::{Operation, cluster_error};
use crate::lower::CONTAINER;
use crate::made::Asked;
use crate::{TIER, creation, labels};

/// How long an API server that does not answer is waited for. What is left then has ended by itself, and goes with the next sweep.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long one removal may take: an API server that is away must not hold up whoever kills a sandbox.
const ANSWER: Duration = Duration::from_secs(10);

/// How long the kubelet of a pod that has ended may take to end its container. It gives it two seconds, and looks every second.
const STOPPING: Duration = Duration::from_secs(5);

/// The pauses between two attempts, the first and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// A pod that was made, and what tells it from another one that has its name later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The pod's name.
    pub name: String,
    /// Which of that name.
    pub which: Which,
    /// Whether another pod may get the name.
    pub named: bool,
}

/// Which pod of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    /// The one that the API server gave this identity to.
    Uid(String),
    /// The one that came of this creation: the server's answer did not come.
    Creation(String),
}

/// A pod as the API server describes it.
///
/// # Errors
///
/// `Protocol` where it does not say which.
pub(crate) fn target(pod: &Pod) -> Result<Target> {
    Target::of(pod).ok_or_else(|| {
        let context = "the API server names no identity of the pod";
        Error::new(ErrorKind::Protocol, "find pod", context).on(TIER)
    })
}

impl Target {
    /// The same; `None` for one that was never made.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        Some(Self {
            name: pod.metadata.name.clone()?,
            which: Which::Uid(pod.metadata.uid.clone()?),
            named: labels::is_detached(pod),
        })
    }
}

/// Removes a pod when it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    cluster: Cluster,
    target: Option<Target>,
}

impl Guard {
    /// Somebody else has removed it, or it is not to be removed.
    pub(crate) fn release(mut self) {
        self.target = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            remove_soon(&self.cluster, target);
        }
    }
}

/// Makes the pod in a task of its own: when this future is dropped in the middle, the task still learns what was made, and its guard
/// removes it.
///
/// # Errors
///
/// What the cluster refuses. An answer that was lost on the way leaves a guard behind as well. A pod that is not the one that was `asked`
/// for is removed.
pub(crate) async fn create(
    cluster: &Cluster,
    pod: Pod,
    asked: Option<&Asked>,
) -> Result<(Pod, Guard)> {
    let (made, guard) = make(cluster, pod).await?;
    let answer = serde_json::to_value(&made).map_err(|error| unreadable(&error))?;
    let checked = asked.map_or(Ok(()), |asked| asked.check_answer(&answer));
    let Err(differs) = checked else {
        let made = serde_json::from_value(answer).map_err(|error| unreadable(&error))?;
        return Ok((made, guard));
    };
    let Some(target) = &guard.target else {
        return Err(differs);
    };
    match remove(&cluster.pods(), target).await {
        Ok(()) => {
            guard.release();
            Err(differs)
        }
        // Its drop goes on.
        Err(left) => Err(differs.with_source(left)),
    }
}

fn unreadable(error: &serde_json::Error) -> Error {
    let context = format!("the API server's answer is no pod: {error}");
    Error::new(ErrorKind::Protocol, "create pod", context).on(TIER)
}

/// The same without a look at what was made. The answer is as the server wrote it: a type would leave out the fields that it does not know.
async fn make(cluster: &Cluster, pod: Pod) -> Result<(DynamicObject, Guard)> {
    let cluster = cluster.clone();
    let under_way = REMOVER.hold();
    let made = tokio::spawn(async move {
        let name = pod.metadata.name.clone();
        let of = labels::creation(&pod).map(ToOwned::to_owned);
        let named = labels::is_detached(&pod);
        let mut guard = Guard {
            target: name.zip(of).map(|(name, of)| Target {
                name,
                which: Which::Creation(of),
                named,
            }),
            cluster: cluster.clone(),
        };
        let asked = serde_json::to_value(&pod).and_then(serde_json::from_value::<DynamicObject>);
        let asked = asked.map_err(|error| unreadable(&error))?;
        let made = match creation::create(&cluster.pods_as_written(), &asked).await {
            Ok(made) => {
                if let (Some(target), Some(uid)) = (&mut guard.target, made.metadata.uid.clone()) {
                    target.which = Which::Uid(uid);
                }
                Ok((made, guard))
            }
            Err(error) => {
                if let kube::Error::Api(_) = &error {
                    // It said so: nothing was made.
                    guard.release();
                }
                Err(cluster_error(Operation::CreatePod, error))
            }
        };
        // Where nobody takes them any more they are dropped in this order: the guard's removal is under way before this is over.
        Ok((made, under_way))
    });
    let made = made.await;
    made.map_err(|error| Error::new(ErrorKind::Io, "create pod", error.to_string()).on(TIER))??
        .0
}

/// Removes a pod; one that is gone is no error, and another one that has its name by now stays. Its kubelet ends it without grace.
///
/// The object of one whose name may come again goes when the kubelet has ended it, after some seconds: as long as two pods of a name run, a
/// kubelet takes who enters one of them to either.
///
/// # Errors
///
/// What the cluster refuses, and where it does not answer within 10 s.
pub(crate) async fn remove(pods: &Api<Pod>, target: &Target) -> Result<()> {
    let removal = tokio::time::timeout(ANSWER, try_remove(pods, target));
    removal.await.unwrap_or_else(|_| {
        Err(Error::unavailable(
            TIER,
            format!("the API server does not answer within {ANSWER:?}"),
            "see that the cluster runs; the agent ends its pod by itself when the lease is over",
        ))
    })
}

async fn try_remove(pods: &Api<Pod>, target: &Target) -> Result<()> {
    let uid = match &target.which {
        Which::Uid(uid) => uid.clone(),
        Which::Creation(creation) => {
            let found = pods.get_opt(&target.name).await;
            let found = found.map_err(|error| cluster_error(Operation::GetPod, error))?;
            let ours = found.filter(|pod| labels::creation(pod) == Some(creation));
            match ours.and_then(|pod| pod.metadata.uid) {
                Some(uid) => uid,
                None => return Ok(()),
            }
        }
    };
    if target.named {
        until_stopped(pods, target).await?;
    }
    // The shortest that is not none.
    let grace = if target.named { 1 } else { 0 };
    let parameters = DeleteParams::default()
        .grace_period(grace)
        .preconditions(Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
    match pods.delete(&target.name, &parameters).await {
        Ok(_) => Ok(()),
        // A conflict: what has the name now is another one.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(cluster_error(Operation::DeletePod, error)),
    }
}

/// Waits until nothing of a pod runs that has failed or ended, for a while. Its time is over before its kubelet has ended the container,
/// and the object of such a pod goes at once, whatever grace it is given.
async fn until_stopped(pods: &Api<Pod>, target: &Target) -> Result<()> {
    let deadline = Instant::now() + STOPPING;
    while Instant::now() < deadline {
        let pod = pods.get_opt(&target.name).await;
        let pod = pod.map_err(|error| cluster_error(Operation::GetPod, error))?;
        let pod = pod.filter(|pod| Target::of(pod).as_ref() == Some(target));
        if !pod.is_some_and(|pod| is_stopping(&pod)) {
            return Ok(());
        }
        sleep(PAUSES[0]).await;
    }
    // A kubelet may never say so.
    Ok(())
}

/// Whether a pod has ended, and a container of it still runs.
fn is_stopping(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let has_ended = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    let mut states = status
        .container_statuses
        .iter()
        .flatten()
        .filter_map(|container| container.state.as_ref());
    has_ended && states.any(|state| state.running.is_some())
}

/// The image that code runs in, as its node names it.
pub(crate) fn image(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let main = statuses.iter().find(|status| status.name == CONTAINER)?;
    Some(main.image_id.clone())
}

static REMOVER: Background = Background::new("sandbox-pods");

/// Starts to remove a pod and returns. Needs no runtime, for whoever drops a sandbox after its runtime has ended.
pub(crate) fn remove_soon(cluster: &Cluster, target: Target) {
    let removal = Removal {
        cluster: cluster.clone(),
        target,
    };
    let pod = removal.target.name.clone();
    if !REMOVER.start(removal.run()) {
        tracing::error!(pod, "no thread to remove a pod; its agent ends by itself");
    }
}

/// Waits until every removal of this process is over, done or given up.
pub(crate) async fn settled() {
    REMOVER.settled().await;
}

#[derive(Debug)]
struct Removal {
    cluster: Cluster,
    target: Target,
}

impl Removal {
    async fn run(self) {
        let name = &self.target.name;
        let pods = match self.cluster.pods_elsewhere() {
            // The caller's own client, whose runtime is the caller's to keep.
            None => self.cluster.pods(),
            Some(Ok(pods)) => pods,
            Some(Err(error)) => {
                tracing::error!(pod = name, %error, "a pod may be left");
                return;
            }
        };
        let deadline = Instant::now() + PATIENCE;
        let [mut pause, longest] = PAUSES;
        loop {
            match remove(&pods, &self.target).await {
                Ok(()) => return,
                Err(error)
                    if error.kind() == ErrorKind::SandboxUnavailable
                        && Instant::now() < deadline =>
                {
                    sleep(pause).await;
                    pause = (2 * pause).min(longest);
                }
                Err(error) => {
                    tracing::error!(pod = name, %error, "a pod may be left");
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_that_has_ended_may_have_a_container_that_runs() {
        let stopping = |phase: &str, state: serde_json::Value| {
            let container = json!({
                "name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            });
            let pod = json!({"metadata": {}, "status": {"phase": phase, "containerStatuses": [container]}});
            is_stopping(&serde_json::from_value(pod).expect("a pod"))
        };
        let (runs, ended) = (
            json!({"running": {}}),
            json!({"terminated": {"exitCode": 1}}),
        );
        assert!(stopping("Failed", runs.clone()) && stopping("Succeeded", runs.clone()));
        assert!(!stopping("Failed", ended.clone()));
        assert!(!stopping("Running", runs), "who removes it ends it");
        assert!(!is_stopping(&Pod::default()));
    }
}
