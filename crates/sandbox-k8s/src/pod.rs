//! A pod that is ours: made so that none is lost, and removed.

use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::TIER;
use crate::cluster::Cluster;
use crate::error::{Operation, cluster_error};

/// How long an API server that does not answer is waited for. What is left then has ended by itself, and goes with the next sweep.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pauses between two attempts, the first and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// Removes a pod when it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    cluster: Cluster,
    name: Option<String>,
}

impl Guard {
    /// Somebody else has removed it.
    pub(crate) fn release(mut self) {
        self.name = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            remove_soon(&self.cluster, name);
        }
    }
}

/// Makes the pod in a task of its own: when this future is dropped in the middle, the task still learns what was made, and its guard
/// removes it.
///
/// # Errors
///
/// What the cluster refuses. An answer that was lost on the way leaves a guard behind as well.
pub(crate) async fn create(cluster: &Cluster, pod: Pod) -> Result<(Pod, Guard)> {
    let cluster = cluster.clone();
    let creation = tokio::spawn(async move {
        let guard = Guard {
            name: pod.metadata.name.clone(),
            cluster: cluster.clone(),
        };
        match cluster.pods().create(&PostParams::default(), &pod).await {
            Ok(made) => Ok((made, guard)),
            Err(error) => {
                if let kube::Error::Api(_) = &error {
                    // It said so: nothing was made.
                    guard.release();
                }
                Err(cluster_error(Operation::CreatePod, error))
            }
        }
    });
    creation
        .await
        .map_err(|error| Error::new(ErrorKind::Io, "create pod", error.to_string()).on(TIER))?
}

/// Removes a pod; one that is gone is no error. Its kubelet ends it without grace.
///
/// # Errors
///
/// What the cluster refuses.
pub(crate) async fn remove(pods: &Api<Pod>, name: &str) -> Result<()> {
    let parameters = DeleteParams::default().grace_period(0);
    match pods.delete(name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(cluster_error(Operation::DeletePod, error)),
    }
}

/// Starts to remove a pod and returns. Needs no runtime: a thread of its own does it, for whoever drops a sandbox after its runtime
/// has ended.
pub(crate) fn remove_soon(cluster: &Cluster, name: String) {
    static REMOVER: OnceLock<Option<UnboundedSender<Removal>>> = OnceLock::new();
    let queue = REMOVER.get_or_init(start).as_ref();
    let removal = Removal {
        cluster: cluster.clone(),
        name,
    };
    if let Err(name) = queue.map_or(Err(removal.name.clone()), |queue| {
        queue.send(removal).map_err(|error| error.0.name)
    }) {
        tracing::error!(
            pod = name,
            "no thread to remove a pod; its agent ends by itself"
        );
    }
}

#[derive(Debug)]
struct Removal {
    cluster: Cluster,
    name: String,
}

fn start() -> Option<UnboundedSender<Removal>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime
        .inspect_err(|error| tracing::error!(%error, "no runtime to remove pods with"))
        .ok()?;
    let (queue, mut removals) = unbounded_channel::<Removal>();
    std::thread::Builder::new()
        .name("sandbox-pod-remover".into())
        .spawn(move || {
            runtime.block_on(async {
                while let Some(removal) = removals.recv().await {
                    tokio::spawn(removal.run());
                }
            });
        })
        .inspect_err(|error| tracing::error!(%error, "no thread to remove pods with"))
        .ok()?;
    Some(queue)
}

impl Removal {
    async fn run(self) {
        let name = &self.name;
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
            match remove(&pods, name).await {
                Ok(()) => return,
                Err(error)
                    if error.kind() == ErrorKind::SandboxUnavailable
                        && Instant::now() < deadline =>
                {
                    tokio::time::sleep(pause).await;
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
