//! Detached sandboxes: found again by their pod's name, and connected to with the key in a Secret
//! of the same namespace. Anyone who may read the Secret may use the sandbox.
//!
//! The kubelet ends the pod at its time to live, whatever its clients do. The pod owns the Secret,
//! so the cluster's garbage collector removes both. Until its creator has reconnected as a later
//! client, the agent ends with its first stream. So a creator that is killed at any moment leaves
//! either a complete sandbox or nothing that runs.

mod hand_over;
mod reconnect;
mod secret;

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use sandbox_core::spi::Found;
use sandbox_core::{Error, ErrorKind, Result, SandboxInfo, SandboxOwner, SandboxState};
use sandbox_host::egress::EgressConfig;
use sandbox_host::state::{ended, name_is_taken, not_found};
use tokio::time::{Instant, sleep};

pub(crate) use hand_over::NewDetachedPod;

use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::failure::{self, PodProgress};
use crate::identity::detached_pod;
use crate::isolator::PodIsolator;
use crate::pod::{self, PodRef};
use crate::{TIER, labels, pool};
use secret::PodLocation;

/// How long a removed pod may take to end. A kubelet that missed a container's end frees the pod
/// when it next collects containers, once a minute:
/// <https://github.com/kubernetes/kubernetes/issues/59456>.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// The detached sandboxes of a namespace.
#[derive(Debug)]
pub(crate) struct DetachedPods<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) egress: EgressConfig<'a>,
}

/// The state of a detached sandbox's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DetachedState {
    /// The creator has not finished.
    Pending,
    Running,
    /// With the reason, if known.
    Ended(Option<String>),
}

impl DetachedState {
    fn of(pod: &Pod) -> Self {
        if is_terminating(pod) {
            return Self::Ended(Some("its pod is being removed".to_owned()));
        }
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if let Some("Succeeded" | "Failed") = phase {
            return Self::Ended(pod.status.as_ref().and_then(failure::status_reason));
        }
        match failure::progress(pod) {
            PodProgress::Running => Self::Running,
            // An unreachable node may come back together with the sandbox.
            _ if phase == Some("Unknown") => Self::Running,
            _ => Self::Pending,
        }
    }
}

/// Whether a pod was removed and its kubelet is ending it.
fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

impl DetachedPods<'_> {
    /// Connects to a running sandbox.
    pub(crate) async fn get(&self, name: &str) -> Result<Found> {
        let pod = self.running_pod(name).await?;
        let location = PodLocation::of(&pod)?;
        let secret = self.cluster.secrets().get_opt(&location.secret()).await;
        let secret = secret.map_err(|error| cluster_error(ClusterOperation::GetSecret, error))?;
        let secret = secret.ok_or_else(|| incomplete(name))?;
        let (record, key) = secret::decode(&secret, &location)?;
        let isolator = PodIsolator::new(self.cluster.clone(), pod::reference(&pod)?, None);
        match reconnect::attach(self.cluster, &isolator, &record, &key, self.egress).await {
            Ok(instance) => Ok(Found {
                plan: record.plan,
                instance: Box::new(instance),
            }),
            // The pod may have ended meanwhile.
            Err(error) => Err(match self.running_pod(name).await {
                Ok(_) => error,
                Err(known) => known,
            }),
        }
    }

    /// All detached sandboxes of the namespace.
    pub(crate) async fn list(&self) -> Result<Vec<SandboxInfo>> {
        let parameters = ListParams::default().labels(&labels::detached_selector());
        let pods = self.cluster.pods().list(&parameters).await;
        let pods = pods.map_err(|error| cluster_error(ClusterOperation::ListPods, error))?;
        let mut list = pods.items.iter().filter_map(info).collect::<Vec<_>>();
        list.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(list)
    }

    /// The running attached sandboxes of the namespace, of all clients. Does not include pods of a
    /// warm pool: they do not have the names of their sandboxes.
    pub(crate) async fn attached(&self) -> Result<Vec<SandboxInfo>> {
        let parameters = ListParams::default().labels(&labels::selector());
        let pods = self.cluster.pods().list(&parameters).await;
        let pods = pods.map_err(|error| cluster_error(ClusterOperation::ListPods, error))?;
        let attached = pods.items.iter().filter(|pod| !labels::is_detached(pod));
        let mut list = Vec::new();
        for (pod, mut info) in attached.filter_map(|pod| Some((pod, attached_info(pod)?))) {
            if info.name == pool::NAME {
                continue;
            }
            info.owner = Some(match labels::client(pod) {
                Some(client) if client == &*self.cluster.owner => SandboxOwner::this_process(),
                Some(client) => SandboxOwner::labeled(client),
                None => SandboxOwner::unknown(),
            });
            list.push(info);
        }
        list.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(list)
    }

    /// Ends a sandbox in any state and removes its pod and Secret.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        let pod = self.pod(name).await?;
        let pod = pod.filter(|pod| !is_terminating(pod));
        let pod = pod.ok_or_else(|| not_found(TIER, name))?;
        let target = pod::reference(&pod)?;
        pod::remove(&self.cluster.pods(), &target).await?;
        // Code runs until the kubelet has stopped the pod.
        match self.wait_until_gone(name, &target).await? {
            None => Ok(()),
            Some(still_there) => {
                let context = format!("{name:?}: {still_there}");
                Err(Error::new(ErrorKind::Io, "remove sandbox", context)
                    .on(TIER)
                    .with_fix("see whether its node answers (`kubectl get nodes`)"))
            }
        }
    }

    /// Frees a name that a creation was refused for, if its sandbox has ended.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the sandbox runs.
    pub(crate) async fn free_name(&self, name: &str) -> Result<()> {
        let Some(pod) = self.pod(name).await? else {
            return Ok(());
        };
        if is_terminating(&pod) {
            return match self.wait_until_gone(name, &pod::reference(&pod)?).await? {
                None => Ok(()),
                Some(still_there) => Err(name_is_taken(TIER, name, false).with_source(still_there)),
            };
        }
        match DetachedState::of(&pod) {
            DetachedState::Ended(_) => {
                pod::remove(&self.cluster.pods(), &pod::reference(&pod)?).await
            }
            DetachedState::Pending | DetachedState::Running => {
                Err(name_is_taken(TIER, name, false))
            }
        }
    }

    /// Waits until a removed pod has ended. Returns its state after the timeout.
    async fn wait_until_gone(&self, name: &str, target: &PodRef) -> Result<Option<String>> {
        let deadline = Instant::now() + TERMINATION_TIMEOUT;
        loop {
            match self.pod(name).await? {
                Some(pod) if PodRef::of(&pod).as_ref() == Some(target) => {
                    if Instant::now() >= deadline {
                        return Ok(Some(still_there(&pod)));
                    }
                    sleep(POLL).await;
                }
                _ => return Ok(None),
            }
        }
    }

    /// The pod of a running sandbox.
    async fn running_pod(&self, name: &str) -> Result<Pod> {
        let pod = self.pod(name).await?;
        let pod = pod.ok_or_else(|| not_found(TIER, name))?;
        match DetachedState::of(&pod) {
            DetachedState::Running => Ok(pod),
            DetachedState::Pending => Err(incomplete(name)),
            DetachedState::Ended(why) => {
                let error = ended(TIER, name);
                Err(match why {
                    Some(why) => error.with_source(sandbox_core::spi::escape(&why).to_string()),
                    None => error,
                })
            }
        }
    }

    async fn pod(&self, name: &str) -> Result<Option<Pod>> {
        let found = self.cluster.pods().get_opt(&detached_pod(name)).await;
        let found = found.map_err(|error| cluster_error(ClusterOperation::GetPod, error))?;
        Ok(found.filter(|pod| labels::is_detached_sandbox(pod, name)))
    }
}

fn still_there(pod: &Pod) -> String {
    let container = match pod::container_runs(pod) {
        true => "its container still runs",
        false => "its container has ended",
    };
    format!("its pod was removed and has not ended in {TERMINATION_TIMEOUT:?}; {container}")
}

fn incomplete(name: &str) -> Error {
    let context = format!("the sandbox {name:?} is still being created, or its Secret was removed");
    Error::new(ErrorKind::SandboxNotFound, "find sandbox", context)
        .on(TIER)
        .with_fix(format!(
            "wait until it is created, or end it with `sandbox rm {name}`"
        ))
}

/// The list entry of a pod; `None` while it is being created or removed.
fn info(pod: &Pod) -> Option<SandboxInfo> {
    match DetachedState::of(pod) {
        DetachedState::Pending => None,
        DetachedState::Running => describe(pod, SandboxState::Running),
        DetachedState::Ended(_) => describe(pod, SandboxState::Ended),
    }
}

/// As [`info`], for an attached sandbox that has not ended.
fn attached_info(pod: &Pod) -> Option<SandboxInfo> {
    match DetachedState::of(pod) {
        // The kubelet reports up to a second late that a pod runs, and its client enters earlier.
        DetachedState::Pending | DetachedState::Running => describe(pod, SandboxState::Running),
        DetachedState::Ended(_) => None,
    }
}

fn describe(pod: &Pod, state: SandboxState) -> Option<SandboxInfo> {
    if is_terminating(pod) {
        return None;
    }
    let name = labels::sandbox_name(pod)?;
    let created = SystemTime::from(pod.metadata.creation_timestamp.as_ref()?.0);
    let mut info = SandboxInfo::new(name, TIER, state, created);
    let begun = pod
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref());
    let begun = begun.map_or(created, |begun| SystemTime::from(begun.0));
    let seconds = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.active_deadline_seconds);
    info.expires = seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .and_then(|seconds| begun.checked_add(Duration::from_secs(seconds)));
    info.labels = labels::specification_labels(pod);
    Some(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::CONTAINER;
    use serde_json::json;

    fn pod(metadata: serde_json::Value, status: serde_json::Value) -> Pod {
        let pod = json!({"metadata": metadata, "status": status});
        serde_json::from_value(pod).expect("a pod")
    }

    fn runs() -> serde_json::Value {
        json!({"phase": "Running", "startTime": "2026-01-01T00:00:05Z", "containerStatuses": [{
            "name": CONTAINER, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {}},
        }]})
    }

    #[test]
    fn sandbox_state_follows_pod_status() {
        let state = |status| DetachedState::of(&pod(json!({}), status));
        assert_eq!(state(runs()), DetachedState::Running);
        assert_eq!(state(json!({"phase": "Pending"})), DetachedState::Pending);
        assert_eq!(state(json!({"phase": "Unknown"})), DetachedState::Running);
        assert_eq!(
            state(json!({"phase": "Succeeded"})),
            DetachedState::Ended(None)
        );
        let over = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"});
        let why = "DeadlineExceeded: too long".to_owned();
        assert_eq!(state(over), DetachedState::Ended(Some(why)));
        let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(matches!(
            DetachedState::of(&pod(leaving, runs())),
            DetachedState::Ended(_)
        ));
    }

    #[test]
    fn list_shows_name_labels_and_expiry() {
        let metadata = json!({
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"sandbox.name": "kept", "sandbox.labels": "{\"team\":\"x\"}"},
            "labels": {"sandbox.tier": "k8s", "sandbox.detached": "true", "app": "theirs"},
        });
        let mut found = pod(metadata.clone(), runs());
        found.spec.get_or_insert_default().active_deadline_seconds = Some(60);
        let shown = info(&found).expect("shown");
        assert_eq!((&*shown.name, shown.state), ("kept", SandboxState::Running));
        assert_eq!(shown.labels, [("team".to_owned(), "x".to_owned())].into());
        let lives = shown.expires.expect("set").duration_since(shown.created);
        assert_eq!(lives.expect("later"), Duration::from_secs(65));
        assert!(labels::is_detached_sandbox(&found, "kept"));
        assert!(!labels::is_detached_sandbox(&found, "other"));
        assert!(info(&pod(metadata, json!({"phase": "Pending"}))).is_none());
    }
}
