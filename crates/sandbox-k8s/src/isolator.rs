//! The pod around an agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use sandbox_core::Result;
use sandbox_host::Isolator;

use crate::TIER;
use crate::cluster::Cluster;
use crate::failure;
use crate::pod::{self, Guard};
use crate::stream::LastWords;

/// The pod around an agent.
#[derive(Debug)]
pub(crate) struct PodIsolator {
    cluster: Cluster,
    name: String,
    /// Whether the pod is known to be gone.
    gone: AtomicBool,
    guard: Mutex<Option<Guard>>,
    last_words: LastWords,
}

impl PodIsolator {
    /// Takes over a pod that runs.
    pub(crate) fn new(cluster: Cluster, name: String, guard: Guard, last_words: LastWords) -> Self {
        Self {
            cluster,
            name,
            gone: AtomicBool::new(false),
            guard: Mutex::new(Some(guard)),
            last_words,
        }
    }

    fn take_guard(&self) -> Option<Guard> {
        self.guard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

#[async_trait]
impl Isolator for PodIsolator {
    fn tier(&self) -> &str {
        TIER
    }

    async fn destroy(&self) -> Result<()> {
        if self.gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Where this is cut short, its drop goes on.
        let guard = self.take_guard();
        pod::remove(&self.cluster.pods(), &self.name).await?;
        self.gone.store(true, Ordering::Relaxed);
        if let Some(guard) = guard {
            guard.release();
        }
        Ok(())
    }

    fn destroy_soon(&self) {
        // Dropping a guard removes the pod in the background.
        drop(self.take_guard());
    }

    async fn oom_kills(&self) -> Option<u64> {
        // The node's kernel knows, and a pod's status says it of whole containers alone.
        None
    }

    fn kill_counts_inside(&self) -> &'static [&'static str] {
        // The container's own group, in both versions.
        &[
            "/sys/fs/cgroup/memory.events",
            "/sys/fs/cgroup/memory/memory.oom_control",
        ]
    }

    async fn post_mortem(&self) -> Option<String> {
        let found = self.cluster.pods().get_opt(&self.name).await;
        let known = match found {
            Ok(Some(pod)) => pod.status.as_ref().and_then(failure::end),
            Ok(None) => Some("the pod is gone: it was removed, or its node was".to_owned()),
            Err(error) => Some(format!("the API server does not say why: {error}")),
        };
        let known = known.map(|words| sandbox_core::escape(&words).to_string());
        let words = self.last_words.text();
        known.or(words.map(|words| format!("last words: {words}")))
    }
}
