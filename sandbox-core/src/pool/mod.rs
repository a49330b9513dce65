//! Sandboxes that are created before they are needed.

mod claim;
mod settings;
mod stock;

use std::fmt;
use std::sync::Arc;

pub use claim::{Claimed, Pool, PoolItem};
pub use settings::{Exhausted, PoolSettings, PoolStatus};
pub use stock::Starter;

use crate::spi::unique_name;
use crate::{Result, SandboxClient, SandboxHandle, SandboxSpec};

/// Sandboxes that wait to be claimed, on any backend.
///
/// Each claim gets a sandbox that nobody had before, and the sandbox is removed when the claim ends.
/// None comes back, so no tenant sees what another one left. A sandbox that has ended while it
/// waited is not handed over.
///
/// The pool belongs to this process. Dropping it removes what waits; claimed sandboxes go on.
/// `SessionPool` of `sandbox-lang` does the same with interpreters.
///
/// ```no_run
/// use sandbox_core::{CapabilityPolicy, ExecRequest, PoolSettings, SandboxClient, SandboxPool, SandboxSpec};
///
/// # async fn example(client: SandboxClient) -> sandbox_core::Result<()> {
/// let pool = SandboxPool::new(&client, &SandboxSpec::new("grader"), PoolSettings::new(3))?;
/// pool.filled().await?;
/// let claimed = pool.claim().await?;
/// claimed.sandbox().exec(&ExecRequest::new("true")).await?.check()?;
/// claimed.end().await
/// # }
/// ```
///
/// A program without an async runtime uses it through its client:
///
/// ```no_run
/// # use sandbox_core::blocking::BlockingClient;
/// # use sandbox_core::{ExecRequest, PoolSettings, SandboxPool, SandboxSpec};
/// # fn example(client: BlockingClient) -> sandbox_core::Result<()> {
/// let (spec, settings) = (SandboxSpec::new("grader"), PoolSettings::new(3));
/// let pool = client.wait(async { SandboxPool::new(client.as_async(), &spec, settings) })?;
/// let claimed = client.wait(pool.claim())?;
/// client.wait(claimed.sandbox().exec(&ExecRequest::new("true")))?.check()?;
/// client.wait(claimed.end())
/// # }
/// ```
#[derive(Debug)]
pub struct SandboxPool(Pool<Arc<SandboxHandle>>);

impl PoolItem for Arc<SandboxHandle> {
    fn sandbox(&self) -> &Self {
        self
    }
}

impl SandboxPool {
    /// Begins to create sandboxes with this specification, whose name gets an end of its own. Does
    /// not wait for them: see [`SandboxPool::filled`].
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::InvalidRequest`] for settings that cannot work, and
    /// [`crate::ErrorKind::InvalidSpec`] for a detached sandbox, which would outlive the pool.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(client: &SandboxClient, spec: &SandboxSpec, settings: PoolSettings) -> Result<Self> {
        let (client, template) = (client.clone(), Arc::new(spec.clone()));
        let start = move || {
            let (client, template) = (client.clone(), Arc::clone(&template));
            let start = async move {
                let mut spec = SandboxSpec::clone(&template);
                spec.name = unique_name(&spec.name);
                client.create(&spec).await.map(Arc::new)
            };
            Box::pin(start) as _
        };
        Pool::new(spec, settings, Arc::new(start)).map(Self)
    }

    /// Takes a sandbox that waits, or waits for one that is being created.
    ///
    /// # Errors
    ///
    /// - [`crate::ErrorKind::PoolExhausted`]: see [`Exhausted`].
    /// - As [`SandboxClient::create`], if one cannot be created.
    pub async fn claim(&self) -> Result<PooledSandbox> {
        self.0.claim().await.map(PooledSandbox)
    }

    /// The pool's sandboxes now.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.0.status()
    }

    /// Waits until as many sandboxes wait as the settings say.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::SetupFailed`] if one cannot be created. The pool tries again.
    pub async fn filled(&self) -> Result<()> {
        self.0.filled().await
    }

    /// Removes the sandboxes that wait and those that start, and waits until they are gone. Claimed
    /// ones go on.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`], for the first that cannot be removed. All are tried.
    pub async fn close(self) -> Result<()> {
        self.0.close().await
    }
}

/// A sandbox of a [`SandboxPool`]. Dropping it removes the sandbox.
pub struct PooledSandbox(Claimed<Arc<SandboxHandle>>);

impl fmt::Debug for PooledSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledSandbox")
            .field("sandbox", self.sandbox())
            .field("is_temporary", &self.is_temporary())
            .finish()
    }
}

impl PooledSandbox {
    /// The sandbox, in which nothing has run.
    #[must_use]
    pub fn sandbox(&self) -> &SandboxHandle {
        self.0.item()
    }

    /// Whether it does not count among the pool's sandboxes: [`Exhausted::Temporary`].
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.0.is_temporary()
    }

    /// Removes the sandbox and waits until it is gone. Another claim can use its place then.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`].
    pub async fn end(self) -> Result<()> {
        self.0.item().kill().await
    }
}
