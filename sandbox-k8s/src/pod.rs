//! Creates and removes our pods, without losing track of one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::{Background, Retries};
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::lowering::CONTAINER;
use crate::requested::RequestedPod;
use crate::{TIER, creation, labels};

/// The timeout of one removal, so that an unreachable API server does not block the caller.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a kubelet may take to stop the container of a pod that has ended: it grants 2 s, and
/// polls every second.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The first and the longest pause between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// Identifies one pod, as opposed to a later one with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodRef {
    pub name: String,
    pub instance: PodInstance,
    /// Whether a later pod may get the same name.
    pub name_is_reused: bool,
}

/// Tells pods with the same name apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodInstance {
    /// The UID that the API server assigned.
    Uid(String),
    /// The creation request, if its response was lost.
    Creation(String),
}

/// The reference of a pod that the API server returned.
///
/// # Errors
///
/// `Protocol` if the pod has no name or UID.
pub(crate) fn reference(pod: &Pod) -> Result<PodRef> {
    PodRef::of(pod).ok_or_else(|| {
        let context = "the API server names no identity of the pod";
        Error::new(ErrorKind::Protocol, "find pod", context).on(TIER)
    })
}

impl PodRef {
    /// As [`reference`]; `None` for a pod without a name or UID.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        Some(Self {
            name: pod.metadata.name.clone()?,
            instance: PodInstance::Uid(pod.metadata.uid.clone()?),
            name_is_reused: labels::is_detached(pod),
        })
    }
}

/// Removes a pod when it is dropped.
#[derive(Debug)]
pub(crate) struct PodGuard {
    cluster: Cluster,
    target: Option<PodRef>,
}

impl PodGuard {
    /// Gives up the removal: the pod is removed already, or is to stay.
    pub(crate) fn release(mut self) {
        self.target = None;
    }
}

impl Drop for PodGuard {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            remove_soon(&self.cluster, target);
        }
    }
}

/// Creates the pod in its own task. If this future is dropped midway, the task still learns
/// what was created, and its guard removes it.
///
/// # Errors
///
/// Errors of the cluster; if the response was lost, a guard removes what may have been created. A
/// pod that differs from the `requested` one is removed.
pub(crate) async fn create(
    cluster: &Cluster,
    pod: Pod,
    requested: Option<&RequestedPod>,
) -> Result<(Pod, PodGuard)> {
    let (created, guard) = create_unchecked(cluster, pod).await?;
    let answer = serde_json::to_value(&created).map_err(|error| unreadable(&error))?;
    let checked = requested.map_or(Ok(()), |requested| requested.check_answer(&answer));
    let Err(difference) = checked else {
        let created = serde_json::from_value(answer).map_err(|error| unreadable(&error))?;
        return Ok((created, guard));
    };
    let Some(target) = &guard.target else {
        return Err(difference);
    };
    match remove(&cluster.pods(), target).await {
        Ok(()) => {
            guard.release();
            Err(difference)
        }
        // The guard's drop retries.
        Err(left) => Err(difference.with_source(left)),
    }
}

fn unreadable(error: &serde_json::Error) -> Error {
    let context = format!("the API server's answer is no pod: {error}");
    Error::new(ErrorKind::Protocol, "create pod", context).on(TIER)
}

/// As [`create`], without the comparison. Returns all fields that the server wrote: a type would
/// drop the fields that it does not know.
async fn create_unchecked(cluster: &Cluster, pod: Pod) -> Result<(DynamicObject, PodGuard)> {
    let cluster = cluster.clone();
    let under_way = REMOVER.hold();
    let created = tokio::spawn(async move {
        let name = pod.metadata.name.clone();
        let of = labels::creation(&pod).map(ToOwned::to_owned);
        let name_is_reused = labels::is_detached(&pod);
        let mut guard = PodGuard {
            target: name.zip(of).map(|(name, of)| PodRef {
                name,
                instance: PodInstance::Creation(of),
                name_is_reused,
            }),
            cluster: cluster.clone(),
        };
        let requested =
            serde_json::to_value(&pod).and_then(serde_json::from_value::<DynamicObject>);
        let requested = requested.map_err(|error| unreadable(&error))?;
        let created = match creation::create(&cluster.pods_as_written(), &requested).await {
            Ok(created) => {
                if let (Some(target), Some(uid)) = (&mut guard.target, created.metadata.uid.clone())
                {
                    target.instance = PodInstance::Uid(uid);
                }
                Ok((created, guard))
            }
            Err(error) => {
                if let kube::Error::Api(_) = &error {
                    // The server refused, so nothing was created.
                    guard.release();
                }
                Err(cluster_error(ClusterOperation::CreatePod, error))
            }
        };
        // If the receiver is gone, these are dropped in order: the removal starts before
        // `under_way` ends.
        Ok((created, under_way))
    });
    let created = created.await;
    created
        .map_err(|error| Error::new(ErrorKind::Io, "create pod", error.to_string()).on(TIER))??
        .0
}

/// Removes a pod without a grace period. Succeeds if the pod is gone, and leaves a later pod with
/// the same name alone.
///
/// If the name may be reused, the object stays until the kubelet has stopped the container, which
/// takes some seconds. While two pods with one name run, a kubelet may route `exec` to either.
///
/// # Errors
///
/// Errors of the cluster, and no answer within 10 s.
pub(crate) async fn remove(pods: &Api<Pod>, target: &PodRef) -> Result<()> {
    let removal = tokio::time::timeout(REQUEST_TIMEOUT, try_remove(pods, target));
    removal.await.unwrap_or_else(|_| {
        Err(Error::unavailable(
            TIER,
            format!("the API server does not answer within {REQUEST_TIMEOUT:?}"),
            "see that the cluster runs; the agent ends its pod by itself when the lease is over",
        ))
    })
}

async fn try_remove(pods: &Api<Pod>, target: &PodRef) -> Result<()> {
    let uid = match &target.instance {
        PodInstance::Uid(uid) => uid.clone(),
        PodInstance::Creation(creation) => {
            let found = pods.get_opt(&target.name).await;
            let found = found.map_err(|error| cluster_error(ClusterOperation::GetPod, error))?;
            let ours = found.filter(|pod| labels::creation(pod) == Some(creation));
            match ours.and_then(|pod| pod.metadata.uid) {
                Some(uid) => uid,
                None => return Ok(()),
            }
        }
    };
    if target.name_is_reused {
        until_stopped(pods, target).await?;
    }
    // The shortest period for which the object stays until the container has stopped.
    let grace = if target.name_is_reused { 1 } else { 0 };
    let parameters = DeleteParams::default()
        .grace_period(grace)
        .preconditions(Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
    match pods.delete(&target.name, &parameters).await {
        Ok(_) => Ok(()),
        // On a conflict, another pod has the name now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(cluster_error(ClusterOperation::DeletePod, error)),
    }
}

/// Waits some time for the kubelet to stop the containers of a pod that has ended. The object of
/// such a pod is deleted at once, whatever the grace period.
async fn until_stopped(pods: &Api<Pod>, target: &PodRef) -> Result<()> {
    let deadline = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < deadline {
        let pod = pods.get_opt(&target.name).await;
        let pod = pod.map_err(|error| cluster_error(ClusterOperation::GetPod, error))?;
        let pod = pod.filter(|pod| PodRef::of(pod).as_ref() == Some(target));
        if !pod.is_some_and(|pod| is_stopping(&pod)) {
            return Ok(());
        }
        sleep(PAUSES[0]).await;
    }
    // A kubelet may never report it.
    Ok(())
}

/// Whether a pod has ended while a container of it still runs.
fn is_stopping(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded")) && container_runs(pod)
}

/// Whether the kubelet reports that a container of the pod runs.
pub(crate) fn container_runs(pod: &Pod) -> bool {
    let containers = pod
        .status
        .iter()
        .flat_map(|status| &status.container_statuses);
    let mut states = containers
        .flatten()
        .filter_map(|container| container.state.as_ref());
    states.any(|state| state.running.is_some())
}

/// The image of the sandbox container, as the node reports it.
pub(crate) fn image(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let main = statuses.iter().find(|status| status.name == CONTAINER)?;
    Some(main.image_id.clone())
}

/// What identifies the image of a pod's first container that has one: its digest, without the name
/// that a node knows it by.
pub(crate) fn image_digest(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let mut all = init.chain(status.container_statuses.iter().flatten());
    let id = all.find_map(|container| Some(&container.image_id).filter(|id| !id.is_empty()))?;
    let digest = id.rsplit('@').next()?;
    Some(digest.to_owned())
}

/// This process's removals.
pub(crate) static REMOVER: Background = Background::new("sandbox-pods");

/// Starts to remove a pod in the background. Needs no runtime, so it works in a drop after the
/// runtime has ended.
pub(crate) fn remove_soon(cluster: &Cluster, target: PodRef) {
    let (cluster, pod) = (cluster.clone(), target.name.clone());
    let removal = async move {
        let removed = async {
            let pods = cluster.background_pods();
            let pods = pods.map_err(|error| cluster_error(ClusterOperation::DeletePod, error))?;
            let mut retries = Retries::new(PAUSES);
            let mut removed = remove(&pods, &target).await;
            while retries.wait_after(&removed).await {
                removed = remove(&pods, &target).await;
            }
            removed
        };
        if let Err(error) = removed.await {
            let pod = &target.name;
            tracing::error!(pod, %error, "the pod may not be removed");
        }
    };
    if !REMOVER.start(removal) {
        tracing::error!(pod, "no thread to remove a pod; its agent ends by itself");
    }
}
