//! Optional: sandboxes that outlive the process that created them.

use std::fmt;

use async_trait::async_trait;

use super::Instance;
use crate::registry::Settings;
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

    /// The sandboxes of this tier that this user's state folder has a record of, in any order.
    ///
    /// # Behavior
    ///
    /// - Reads files of this host only. Asks no engine, so a recorded sandbox may have ended.
    /// - Empty if the backend keeps no records on this host.
    ///
    /// # Errors
    ///
    /// If the state folder cannot be read.
    fn recorded(&self) -> Result<Vec<RecordedSandbox>> {
        Ok(Vec::new())
    }

    /// Removes what ended detached sandboxes of this tier left, and keeps the running ones.
    /// Returns the names of the removed sandboxes, sorted.
    async fn prune(&self) -> Result<Vec<String>>;
}

/// A detached sandbox in the records of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedSandbox {
    /// Its name.
    pub name: String,
    /// The settings that its tier was opened with, if it has to be opened with them again.
    pub settings: Settings,
}

impl RecordedSandbox {
    /// A sandbox that its tier finds without settings.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            settings: Settings::new(),
        }
    }

    /// Sets the settings that its tier has to be opened with.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }
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
