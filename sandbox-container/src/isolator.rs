//! The container around an agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bollard::errors::Error as EngineError;
use sandbox_core::{ErrorKind, ImageInfo, ImageReference, Result, SandboxStats};
use sandbox_host::{Counters, Isolator, StderrTail, lock};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::Tier;
use crate::background_removal::{CleanupExtras, remove_soon};
use crate::cgroup::ContainerCgroups;
use crate::detached::{RecordGuard, RecordStore};
use crate::engine::{EngineConnection, inspect};
use crate::error::{Operation, engine_error};
use crate::image::{self, Commit, SourceImage};
use crate::removal::{self, ContainerGuard};

/// The container around an agent.
#[derive(Debug, Clone)]
pub(crate) struct ContainerIsolator(Arc<IsolatedContainer>);

/// A running container, and the resources that belong to it.
#[derive(Debug)]
pub(crate) struct RunningContainer {
    pub tier: Tier,
    pub engine: EngineConnection,
    /// Its id.
    pub id: String,
    /// Removes the container when dropped. `None` for a sandbox that another process created.
    pub guard: Option<ContainerGuard>,
    pub stderr_tail: StderrTail,
    /// Whether code has no network except loopback.
    pub no_network: bool,
    /// Remaining time to live.
    pub lifetime: Option<Duration>,
    /// Holds the key of a detached sandbox.
    pub store: Option<RecordStore>,
    /// The image that the container was created from, if known.
    pub source: Option<SourceImage>,
    /// The image to remove after the container, if no guard removes it.
    pub image: Option<String>,
}

#[derive(Debug)]
struct IsolatedContainer {
    tier: Tier,
    engine: EngineConnection,
    container: String,
    /// Whether the container is known to be removed.
    gone: AtomicBool,
    guard: Mutex<Option<ContainerGuard>>,
    stderr_tail: StderrTail,
    no_network: bool,
    store: Option<RecordStore>,
    /// The image to remove after the container, if no guard removes it.
    image: Mutex<Option<String>>,
    /// The container's cgroups, looked up once.
    cgroups: OnceCell<Option<ContainerCgroups>>,
    /// The image that the container was created from, looked up on demand.
    source: OnceCell<SourceImage>,
    /// Ends the sandbox after its lifetime if its agent does not.
    lifetime_task: Option<JoinHandle<()>>,
}

/// Extra time for the agent to end a sandbox after its lifetime, before its client removes it.
const AGENT_GRACE: Duration = Duration::from_secs(1);

impl ContainerIsolator {
    /// Wraps a running container.
    pub(crate) fn new(container: RunningContainer) -> Self {
        let RunningContainer {
            tier,
            engine,
            id,
            guard,
            stderr_tail,
            no_network,
            lifetime,
            store,
            source,
            image,
        } = container;
        let lifetime_task = lifetime.map(|lifetime| {
            let (endpoint, container) = (engine.endpoint.clone(), id.clone());
            tokio::spawn(async move {
                tokio::time::sleep(lifetime.saturating_add(AGENT_GRACE)).await;
                remove_soon(tier, &endpoint, &container, CleanupExtras::default());
            })
        });
        Self(Arc::new(IsolatedContainer {
            tier,
            engine,
            container: id,
            gone: AtomicBool::new(false),
            guard: Mutex::new(guard),
            stderr_tail,
            no_network,
            store,
            image: Mutex::new(image),
            cgroups: OnceCell::new(),
            source: OnceCell::new_with(source),
            lifetime_task,
        }))
    }

    /// The tier of the sandbox.
    pub(crate) fn tier(&self) -> Tier {
        self.0.tier
    }

    /// The container's engine.
    pub(crate) fn engine(&self) -> &EngineConnection {
        &self.0.engine
    }

    /// Whether code has no network except loopback.
    pub(crate) fn has_no_network(&self) -> bool {
        self.0.no_network
    }

    /// The container's id.
    pub(crate) fn container(&self) -> &str {
        &self.0.container
    }

    /// The tail of the agent's standard error, over all streams.
    pub(crate) fn stderr_tail(&self) -> StderrTail {
        self.0.stderr_tail.clone()
    }

    /// Removes the record after the container.
    pub(crate) fn attach_record(&self, record: RecordGuard) {
        // Without a guard the container is already removed; dropping the record removes it too.
        if let Some(guard) = lock(&self.0.guard).as_mut() {
            guard.attach_record(record);
        }
    }

    /// Detaches the container: it outlives this isolator.
    pub(crate) fn detach(&self) {
        if let Some(guard) = lock(&self.0.guard).take() {
            // Whichever process removes the container also removes its image.
            *lock(&self.0.image) = guard.detach();
        }
    }

    /// The container's cgroups. Looked up once: call it while the sandbox is being created.
    pub(crate) async fn cgroups(&self) -> Option<&ContainerCgroups> {
        let inner = &*self.0;
        let lookup = inner.cgroups.get_or_try_init(|| async {
            if !inner.engine.is_local() {
                return Ok(None);
            }
            let cgroups = ContainerCgroups::at_usual_paths(
                inner.tier.family,
                &inner.container,
                inner.no_network,
            );
            if cgroups.is_some() {
                return Ok(cgroups);
            }
            let container = inspect(&inner.engine.client, &inner.container).await?;
            let pid = container.state.and_then(|state| state.pid);
            let pid = pid.filter(|pid| *pid > 0);
            let cgroups_of =
                |pid| ContainerCgroups::of_process(&inner.container, pid, inner.no_network);
            Ok::<_, EngineError>(pid.and_then(cgroups_of))
        });
        // If the engine does not answer, the next call tries again.
        lookup.await.ok()?.as_ref()
    }
}

#[async_trait]
impl Isolator for ContainerIsolator {
    fn tier(&self) -> &str {
        self.0.tier.name
    }

    async fn destroy(&self) -> Result<()> {
        let inner = &*self.0;
        if inner.gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Otherwise the end of the agent would drop the guard. If this future is dropped, the guard
        // finishes the removal.
        let guard = lock(&inner.guard).take();
        if let Err(error) =
            removal::remove(inner.tier, &inner.engine.client, &inner.container).await
        {
            *lock(&inner.guard) = guard;
            return Err(error);
        }
        inner.gone.store(true, Ordering::Relaxed);
        let image = guard.and_then(ContainerGuard::disarm);
        let image = image.or_else(|| lock(&inner.image).take());
        if let Some(store) = &inner.store {
            store.remove(&inner.container)?;
        }
        match image {
            Some(image) => {
                let client = &inner.engine.client;
                removal::remove_image_of(inner.tier, client, &image, &inner.container).await
            }
            None => Ok(()),
        }
    }

    fn destroy_soon(&self) {
        let inner = &*self.0;
        // Dropping a guard removes the container in the background.
        if lock(&inner.guard).take().is_none() && !inner.gone.load(Ordering::Relaxed) {
            let endpoint = &inner.engine.endpoint;
            remove_soon(
                inner.tier,
                endpoint,
                &inner.container,
                CleanupExtras::default(),
            );
        }
    }

    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let inner = &*self.0;
        let lookup = || image::source_of_container(inner.tier, &inner.engine, &inner.container);
        let commit = Commit {
            tier: inner.tier,
            engine: &inner.engine,
            container: &inner.container,
            source: inner.source.get_or_try_init(lookup).await?,
            tag,
        };
        commit.run().await
    }

    async fn oom_kills(&self) -> Option<u64> {
        self.cgroups().await?.oom_kills()
    }

    async fn counters(&self) -> Counters {
        let cgroups = self.cgroups().await;
        cgroups.map(ContainerCgroups::counters).unwrap_or_default()
    }

    async fn stats(&self) -> SandboxStats {
        let cgroups = self.cgroups().await;
        cgroups.map(ContainerCgroups::stats).unwrap_or_default()
    }

    async fn post_mortem(&self) -> Option<String> {
        let inner = &*self.0;
        let client = &inner.engine.client;
        let container = match inspect(client, &inner.container).await {
            Ok(container) => Some(container),
            Err(error) => {
                let error = engine_error(inner.tier, Operation::Inspect, error);
                if error.kind() == ErrorKind::SandboxUnavailable {
                    return Some(error.context().to_owned());
                }
                None
            }
        };
        let state = container.and_then(|container| container.state);
        if state
            .as_ref()
            .is_some_and(|state| state.oom_killed == Some(true))
        {
            return Some("the container was killed for memory".into());
        }
        let error = state
            .and_then(|state| state.error)
            .filter(|error| !error.is_empty());
        inner.stderr_tail.explanation().or(error)
    }
}

impl Drop for IsolatedContainer {
    fn drop(&mut self) {
        if let Some(lifetime_task) = &self.lifetime_task {
            lifetime_task.abort();
        }
    }
}
