//! The container around an agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use sandbox_core::{ImageInfo, ImageReference, Result};
use sandbox_host::{Counters, Isolator};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::Tier;
use crate::cgroup::Counts;
use crate::engine::Engine;
use crate::image::{Commit, Source};
use crate::removal::{self, Guard};
use crate::stream::LastWords;

/// The container around an agent.
#[derive(Debug)]
pub(crate) struct ContainerIsolator {
    tier: Tier,
    engine: Engine,
    container: String,
    /// Whether the container is known to be gone.
    gone: AtomicBool,
    /// Removes the container with the isolator.
    guard: Mutex<Option<Guard>>,
    last_words: LastWords,
    /// Whether code has no network but its loopback.
    no_network: bool,
    /// Where the kernel counts what it refused, looked up once.
    counts: OnceCell<Option<Counts>>,
    /// The image that the container was made of.
    source: Source,
    /// Ends the sandbox at its time to live.
    reaper: Option<JoinHandle<()>>,
}

impl ContainerIsolator {
    /// Takes over a container that runs.
    pub(crate) fn new(
        tier: Tier,
        engine: Engine,
        guard: Guard,
        last_words: LastWords,
        no_network: bool,
        lifetime: Option<Duration>,
        source: Source,
    ) -> Self {
        let container = guard.container().to_owned();
        let reaper = lifetime.map(|lifetime| {
            let (endpoint, container) = (engine.endpoint.clone(), container.clone());
            tokio::spawn(async move {
                tokio::time::sleep(lifetime).await;
                removal::remove_soon(tier, &endpoint, &container, None);
            })
        });
        Self {
            tier,
            engine,
            container,
            gone: AtomicBool::new(false),
            guard: Mutex::new(Some(guard)),
            last_words,
            no_network,
            counts: OnceCell::new(),
            source,
            reaper,
        }
    }

    fn guard(&self) -> MutexGuard<'_, Option<Guard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the kernel counts what it refused the container. Looked up once: ask while the sandbox is still being made.
    pub(crate) async fn counts(&self) -> Option<&Counts> {
        let look = self.counts.get_or_init(|| async {
            if !self.engine.facts.local {
                return None;
            }
            if let Some(counts) = Counts::usual(self.tier.family, &self.container, self.no_network)
            {
                return Some(counts);
            }
            let pid = process(&self.engine.client, &self.container).await?;
            Counts::of_process(&self.container, pid, self.no_network)
        });
        look.await.as_ref()
    }
}

async fn process(client: &Docker, container: &str) -> Option<i64> {
    let container = client.inspect_container(container, None).await.ok()?;
    container.state?.pid.filter(|pid| *pid > 0)
}

#[async_trait]
impl Isolator for ContainerIsolator {
    fn tier(&self) -> &str {
        self.tier.name
    }

    async fn destroy(&self) -> Result<()> {
        if self.gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        // The agent's end, which this brings about, would otherwise take it. Where this is cut short, its drop goes on.
        let guard = self.guard().take();
        if let Err(error) = removal::remove(self.tier, &self.engine.client, &self.container).await {
            *self.guard() = guard;
            return Err(error);
        }
        self.gone.store(true, Ordering::Relaxed);
        let image = guard.and_then(Guard::release);
        match image {
            Some(image) => removal::remove_image(self.tier, &self.engine.client, &image).await,
            None => Ok(()),
        }
    }

    fn destroy_soon(&self) {
        // Dropping the guard removes the container in the background.
        drop(self.guard().take());
    }

    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let commit = Commit {
            tier: self.tier,
            engine: &self.engine,
            container: &self.container,
            source: &self.source,
            tag,
        };
        commit.run().await
    }

    async fn oom_kills(&self) -> Option<u64> {
        self.counts().await?.oom_kills()
    }

    fn kill_counts_inside(&self) -> &'static [&'static str] {
        // The container's own group, in both versions: a namespace of groups makes it the root.
        &[
            "/sys/fs/cgroup/memory.events",
            "/sys/fs/cgroup/memory/memory.oom_control",
        ]
    }

    async fn counters(&self) -> Counters {
        let counts = self.counts().await;
        counts.map(Counts::counters).unwrap_or_default()
    }

    async fn post_mortem(&self) -> Option<String> {
        let container = self
            .engine
            .client
            .inspect_container(&self.container, None)
            .await
            .ok();
        let state = container.and_then(|container| container.state);
        if state
            .as_ref()
            .is_some_and(|state| state.oom_killed == Some(true))
        {
            return Some("the container was killed for memory".into());
        }
        let words = self
            .last_words
            .text()
            .map(|words| format!("the agent's last words: {words}"));
        let error = state
            .and_then(|state| state.error)
            .filter(|error| !error.is_empty());
        words.or(error)
    }
}

impl Drop for ContainerIsolator {
    fn drop(&mut self) {
        if let Some(reaper) = &self.reaper {
            reaper.abort();
        }
    }
}
