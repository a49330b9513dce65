//! The pod around an agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use sandbox_core::Result;
use sandbox_host::{Isolator, StderrTail, lock};

use crate::TIER;
use crate::cluster::Cluster;
use crate::failure;
use crate::pod::{self, PodGuard, PodRef};

/// How long the cluster may take to report why a pod has ended.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A pod's own control groups: one folder of version 2, or one of each controller of version 1.
const CGROUP_FILES: &[&str] = &[
    "/sys/fs/cgroup/cpu.stat",
    "/sys/fs/cgroup/io.stat",
    "/sys/fs/cgroup/memory.current",
    "/sys/fs/cgroup/memory.peak",
    "/sys/fs/cgroup/pids.current",
    "/sys/fs/cgroup/cpuacct/cpuacct.usage",
    "/sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes_recursive",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    "/sys/fs/cgroup/memory/memory.max_usage_in_bytes",
    "/sys/fs/cgroup/pids/pids.current",
];

/// The pod around an agent.
#[derive(Debug, Clone)]
pub(crate) struct PodIsolator(Arc<IsolatedPod>);

#[derive(Debug)]
struct IsolatedPod {
    cluster: Cluster,
    pod: PodRef,
    /// Whether the pod is known to be removed.
    removed: AtomicBool,
    /// Whether a removal runs in the background.
    removing: AtomicBool,
    /// Removes the pod on drop. `None` for a sandbox that this process does not own.
    guard: Mutex<Option<PodGuard>>,
    stderr_tail: StderrTail,
}

impl PodIsolator {
    /// Wraps a running pod. `guard` is `None` for a sandbox that this process does not own.
    pub(crate) fn new(cluster: Cluster, pod: PodRef, guard: Option<PodGuard>) -> Self {
        Self(Arc::new(IsolatedPod {
            cluster,
            pod,
            removed: AtomicBool::new(false),
            removing: AtomicBool::new(false),
            guard: Mutex::new(guard),
            stderr_tail: StderrTail::default(),
        }))
    }

    pub(crate) fn pod(&self) -> &PodRef {
        &self.0.pod
    }

    /// The tail of standard error, over all streams.
    pub(crate) fn stderr_tail(&self) -> StderrTail {
        self.0.stderr_tail.clone()
    }

    /// Gives up ownership: the pod outlives the isolator.
    pub(crate) fn release(&self) {
        if let Some(guard) = self.take_guard() {
            guard.release();
        }
    }

    fn take_guard(&self) -> Option<PodGuard> {
        lock(&self.0.guard).take()
    }
}

#[async_trait]
impl Isolator for PodIsolator {
    fn tier(&self) -> &str {
        TIER
    }

    async fn destroy(&self) -> Result<()> {
        let inner = &*self.0;
        if inner.removed.load(Ordering::Relaxed) {
            return Ok(());
        }
        // If this future is dropped, the guard's drop continues.
        let guard = self.take_guard();
        pod::remove(&inner.cluster.pods(), &inner.pod).await?;
        inner.removed.store(true, Ordering::Relaxed);
        if let Some(guard) = guard {
            guard.release();
        }
        Ok(())
    }

    fn destroy_soon(&self) {
        let inner = &*self.0;
        // Dropping the guard removes the pod in the background.
        let guarded = self.take_guard().is_some();
        let removing = inner.removing.swap(true, Ordering::Relaxed);
        if !guarded && !removing && !inner.removed.load(Ordering::Relaxed) {
            pod::remove_soon(&inner.cluster, inner.pod.clone());
        }
    }

    fn stats_inside(&self) -> &'static [&'static str] {
        CGROUP_FILES
    }

    async fn oom_kills(&self) -> Option<u64> {
        // A pod's status reports kills of whole containers only, so the agent counts them.
        None
    }

    async fn post_mortem(&self) -> Option<String> {
        let inner = &*self.0;
        let pods = inner.cluster.pods();
        let found = tokio::time::timeout(ANSWER_TIMEOUT, pods.get_opt(&inner.pod.name)).await;
        let ours = |pod: &Pod| PodRef::of(pod).is_some_and(|target| target == inner.pod);
        let known = match found {
            Err(_) => Some("the API server does not answer".to_owned()),
            Ok(found) => match found.map(|pod| pod.filter(ours)) {
                Ok(Some(pod)) => pod.status.as_ref().and_then(failure::status_reason),
                Ok(None) => Some("the pod is gone: it or its node was removed".to_owned()),
                Err(error) => Some(format!("the API server does not say why: {error}")),
            },
        };
        let known = known.map(|reason| sandbox_core::spi::escape(&reason).to_string());
        known.or(inner.stderr_tail.explanation())
    }
}
