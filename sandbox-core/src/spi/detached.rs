//! Optional: sandboxes that outlive the process that created them.

use std::fmt;

use async_trait::async_trait;

use super::Instance;
use crate::{Plan, Result, SandboxInfo};

/// Finds and removes detached sandboxes. The [`super::Backend::create`] of such a backend accepts plans
/// with [`Plan::detached`].
#[async_trait]
pub trait Detached: Send + Sync {
    /// Attaches to a running detached sandbox.
    ///
    /// # Behavior
    ///
    /// - Returns the plan that the sandbox was created with.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::SandboxNotFound`] if this tier has no sandbox of that name,
    /// [`crate::ErrorKind::SandboxEnded`] if it has ended.
    async fn get(&self, name: &str) -> Result<Found>;

    /// The detached sandboxes of this tier, sorted by name.
    async fn list(&self) -> Result<Vec<SandboxInfo>>;

    /// Ends a detached sandbox and removes everything that it left.
    ///
    /// # Behavior
    ///
    /// - Never ends a process that is not part of the sandbox, even if process ids were reused.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::SandboxNotFound`] if this tier has no sandbox of that name.
    async fn remove(&self, name: &str) -> Result<()>;

    /// Removes what ended detached sandboxes of this tier left, and keeps the running ones.
    /// Returns the names of the removed sandboxes, sorted.
    async fn prune(&self) -> Result<Vec<String>>;
}

/// A detached sandbox that [`Detached::get`] found.
pub struct Found {
    /// The plan that it was created with.
    pub plan: Plan,
    /// The connection to it.
    pub instance: Box<dyn Instance>,
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
