//! The pod around an agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::{Isolator, LastWords};

use crate::TIER;
use crate::cluster::Cluster;
use crate::failure;
use crate::pod::{self, PodGuard, PodRef};

/// How long the cluster may take to report why a pod has ended.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The pod around an agent.
#[derive(Debug, Clone)]
pub(crate) struct PodIsolator(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cluster: Cluster,
    pod: PodRef,
    /// Whether the pod is known to be removed.
    removed: AtomicBool,
    /// Whether a removal runs in the background.
    removing: AtomicBool,
    /// Removes the pod on drop. `None` for a sandbox that this process does not own.
    guard: Mutex<Option<PodGuard>>,
    last_words: Mutex<LastWords>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PodIsolator {
    /// Takes ownership of a running pod.
    pub(crate) fn new(
        cluster: Cluster,
        pod: PodRef,
        guard: PodGuard,
        last_words: LastWords,
    ) -> Self {
        Self::of(cluster, pod, Some(guard), last_words)
    }

    /// A running pod that this process does not own.
    pub(crate) fn foreign(cluster: Cluster, pod: PodRef) -> Self {
        Self::of(cluster, pod, None, LastWords::default())
    }

    fn of(cluster: Cluster, pod: PodRef, guard: Option<PodGuard>, last_words: LastWords) -> Self {
        Self(Arc::new(Inner {
            cluster,
            pod,
            removed: AtomicBool::new(false),
            removing: AtomicBool::new(false),
            guard: Mutex::new(guard),
            last_words: Mutex::new(last_words),
        }))
    }

    pub(crate) fn pod(&self) -> &PodRef {
        &self.0.pod
    }

    /// Replaces the source of the tail of standard error.
    pub(crate) fn set_stderr_tail(&self, words: LastWords) {
        *lock(&self.0.last_words) = words;
    }

    /// Gives up ownership: the pod outlives the isolator.
    pub(crate) fn release(&self) {
        if let Some(guard) = self.take_guard() {
            guard.release();
        }
    }

    /// Removes the pod of a sandbox whose creation failed. Returns the error, with a failed removal
    /// as its source. If the cluster does not answer, returns at once; the guard's drop retries in
    /// the background.
    pub(crate) async fn remove_after(&self, failed: Error) -> Error {
        if failed.kind() == ErrorKind::SandboxUnavailable {
            return failed;
        }
        match self.destroy().await {
            Ok(()) => failed,
            Err(left) => failed.with_source(left),
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
        let known = known.map(|words| sandbox_core::escape(&words).to_string());
        let words = lock(&inner.last_words).text();
        known.or(words.map(|words| format!("last words: {words}")))
    }
}
