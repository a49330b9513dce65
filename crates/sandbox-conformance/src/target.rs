//! What is measured: a linked tier, or a backend that the caller made.

use std::fmt;
use std::sync::Arc;

use sandbox_core::matrix::ProfileKey;
use sandbox_core::spi::Backend;
use sandbox_core::{CapabilityPolicy, Result, SandboxClient, registry};

/// A tier or a backend to measure.
#[derive(Clone)]
pub struct Target {
    name: String,
    backend: Arc<dyn Backend>,
    registered: bool,
    applies_policy: bool,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// The linked tier of this name.
    ///
    /// # Errors
    ///
    /// [`sandbox_core::ErrorKind::UnknownBackend`], and what opening the backend finds.
    pub fn tier(name: &str) -> Result<Self> {
        let registration = registry::tier(name)?;
        let backend = (registration.open)()?;
        Ok(Self {
            name: name.to_owned(),
            backend,
            registered: true,
            applies_policy: registration.applies_policy,
        })
    }

    /// A backend that no registry knows.
    #[must_use]
    pub fn backend(backend: Arc<dyn Backend>) -> Self {
        Self {
            name: backend.name().to_owned(),
            backend,
            registered: false,
            applies_policy: true,
        }
    }

    /// The tier's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it refuses what it cannot enforce. An `*_unsafe` tier does not.
    #[must_use]
    pub fn applies_policy(&self) -> bool {
        self.applies_policy
    }

    /// A client under this policy, made the way that every user makes one.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::open`].
    pub fn client(&self, policy: CapabilityPolicy) -> Result<SandboxClient> {
        if self.registered {
            SandboxClient::open(&self.name, policy)
        } else {
            SandboxClient::with_backend(Arc::clone(&self.backend), policy)
        }
    }

    /// What of this host changes enforcement.
    ///
    /// # Errors
    ///
    /// What the backend finds; [`sandbox_core::ErrorKind::SandboxUnavailable`] where it cannot run here.
    pub async fn key(&self) -> Result<ProfileKey> {
        self.backend.profile().await
    }
}
