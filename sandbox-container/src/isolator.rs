//! The container around an agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bollard::errors::Error as EngineError;
use sandbox_core::{Error, ErrorKind, ImageInfo, ImageReference, Result};
use sandbox_host::{Counters, Isolator, LastWords};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::Tier;
use crate::cgroup::Counts;
use crate::engine::{Engine, inspect};
use crate::error::{Operation, engine_error};
use crate::image::{self, Commit, Source};
use crate::kept::{Entry, Store};
use crate::removal::{self, Guard};
use crate::remover::{Along, remove_soon};

/// The container around an agent.
#[derive(Debug, Clone)]
pub(crate) struct ContainerIsolator(Arc<Inner>);

/// A running container, and what goes with it.
#[derive(Debug)]
pub(crate) struct Container {
    pub tier: Tier,
    pub engine: Engine,
    /// Its id.
    pub id: String,
    /// Removes the container when dropped. `None` for a sandbox that another process created.
    pub guard: Option<Guard>,
    pub last_words: LastWords,
    /// Whether code has no network except loopback.
    pub no_network: bool,
    /// Remaining time to live.
    pub lifetime: Option<Duration>,
    /// Holds the key of a detached sandbox.
    pub store: Option<Store>,
    /// The image that the container was created from, if known.
    pub source: Option<Source>,
    /// The image to remove after the container, if no guard removes it.
    pub image: Option<String>,
}

#[derive(Debug)]
struct Inner {
    tier: Tier,
    engine: Engine,
    container: String,
    /// Whether the container is known to be removed.
    gone: AtomicBool,
    guard: Mutex<Option<Guard>>,
    last_words: Mutex<LastWords>,
    no_network: bool,
    store: Option<Store>,
    /// The image to remove after the container, if no guard removes it.
    image: Mutex<Option<String>>,
    /// The container's cgroups, looked up once.
    counts: OnceCell<Option<Counts>>,
    /// The image that the container was created from, looked up on demand.
    source: OnceCell<Source>,
    /// Ends the sandbox after its lifetime if its agent does not.
    reaper: Option<JoinHandle<()>>,
}

/// Extra time for the agent to end a sandbox after its lifetime.
const OVERTIME: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ContainerIsolator {
    /// Wraps a running container.
    pub(crate) fn new(container: Container) -> Self {
        let Container {
            tier,
            engine,
            id,
            guard,
            last_words,
            no_network,
            lifetime,
            store,
            source,
            image,
        } = container;
        let reaper = lifetime.map(|lifetime| {
            let (endpoint, container) = (engine.endpoint.clone(), id.clone());
            tokio::spawn(async move {
                tokio::time::sleep(lifetime.saturating_add(OVERTIME)).await;
                remove_soon(tier, &endpoint, &container, Along::default());
            })
        });
        Self(Arc::new(Inner {
            tier,
            engine,
            container: id,
            gone: AtomicBool::new(false),
            guard: Mutex::new(guard),
            last_words: Mutex::new(last_words),
            no_network,
            store,
            image: Mutex::new(image),
            counts: OnceCell::new(),
            source: OnceCell::new_with(source),
            reaper,
        }))
    }

    /// The container's id.
    pub(crate) fn container(&self) -> &str {
        &self.0.container
    }

    /// Reads the agent's standard error from this stream from now on.
    pub(crate) fn listen_to(&self, words: LastWords) {
        *lock(&self.0.last_words) = words;
    }

    /// Removes the record after the container.
    pub(crate) fn hold(&self, record: Entry) {
        // Without a guard the container is already removed; dropping the record removes it too.
        if let Some(guard) = lock(&self.0.guard).as_mut() {
            guard.hold(record);
        }
    }

    /// Detaches the container: it outlives this isolator.
    pub(crate) fn keep(&self) {
        if let Some(guard) = lock(&self.0.guard).take() {
            // Whichever process removes the container also removes its image.
            *lock(&self.0.image) = guard.hand_over();
        }
    }

    /// Removes the container after a failed creation. Returns the error, with the removal's error
    /// if that fails too.
    pub(crate) async fn after(&self, failed: Error) -> Error {
        match self.destroy().await {
            Ok(()) => failed,
            Err(left) => failed.with_source(left),
        }
    }

    /// The container's cgroups. Looked up once: call it while the sandbox is being created.
    pub(crate) async fn counts(&self) -> Option<&Counts> {
        let inner = &*self.0;
        let look = inner.counts.get_or_try_init(|| async {
            if !inner.engine.facts.local {
                return Ok(None);
            }
            let usual = Counts::usual(inner.tier.family, &inner.container, inner.no_network);
            if usual.is_some() {
                return Ok(usual);
            }
            let container = inspect(&inner.engine.client, &inner.container).await?;
            let pid = container.state.and_then(|state| state.pid);
            let pid = pid.filter(|pid| *pid > 0);
            let of = |pid| Counts::of_process(&inner.container, pid, inner.no_network);
            Ok::<_, EngineError>(pid.and_then(of))
        });
        // If the engine does not answer, the next call tries again.
        look.await.ok()?.as_ref()
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
        let image = guard.and_then(Guard::release);
        let image = image.or_else(|| lock(&inner.image).take());
        if let Some(store) = &inner.store {
            store.remove(&inner.container)?;
        }
        match image {
            Some(image) => removal::remove_image(inner.tier, &inner.engine.client, &image).await,
            None => Ok(()),
        }
    }

    fn destroy_soon(&self) {
        let inner = &*self.0;
        // Dropping a guard removes the container in the background.
        if lock(&inner.guard).take().is_none() && !inner.gone.load(Ordering::Relaxed) {
            let endpoint = &inner.engine.endpoint;
            remove_soon(inner.tier, endpoint, &inner.container, Along::default());
        }
    }

    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let inner = &*self.0;
        let look = || image::of_container(inner.tier, &inner.engine, &inner.container);
        let commit = Commit {
            tier: inner.tier,
            engine: &inner.engine,
            container: &inner.container,
            source: inner.source.get_or_try_init(look).await?,
            tag,
        };
        commit.run().await
    }

    async fn oom_kills(&self) -> Option<u64> {
        self.counts().await?.oom_kills()
    }

    async fn counters(&self) -> Counters {
        let counts = self.counts().await;
        counts.map(Counts::counters).unwrap_or_default()
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
        let words = lock(&inner.last_words).text();
        let words = words.map(|words| format!("the agent's last words: {words}"));
        let error = state
            .and_then(|state| state.error)
            .filter(|error| !error.is_empty());
        words.or(error)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(reaper) = &self.reaper {
            reaper.abort();
        }
    }
}
