//! What is measured: a linked tier, or a backend that the caller made.

use std::fmt;
use std::sync::Arc;

use sandbox_core::matrix::ProfileKey;
use sandbox_core::registry::{self, Settings};
use sandbox_core::spi::Backend;
use sandbox_core::{CapabilityPolicy, Result, SandboxClient};

/// A tier or a backend to measure.
#[derive(Clone)]
pub struct Target {
    name: String,
    backend: Arc<dyn Backend>,
    /// Under which a linked tier is opened; `None` for a backend that no registry knows.
    settings: Option<Settings>,
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
        Self::tier_with(name, Settings::new())
    }

    /// The linked tier of this name, under these settings.
    ///
    /// # Errors
    ///
    /// As [`Target::tier`], and [`sandbox_core::ErrorKind::InvalidSpec`] for a setting that the tier does not have.
    pub fn tier_with(name: &str, settings: Settings) -> Result<Self> {
        let registration = registry::tier(name)?;
        let backend = registration.opened(&settings)?;
        Ok(Self {
            name: name.to_owned(),
            backend,
            settings: Some(settings),
            applies_policy: registration.applies_policy,
        })
    }

    /// A backend that no registry knows.
    #[must_use]
    pub fn backend(backend: Arc<dyn Backend>) -> Self {
        Self {
            name: backend.name().to_owned(),
            backend,
            settings: None,
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
        match &self.settings {
            Some(settings) => SandboxClient::open_with(&self.name, policy, settings),
            None => SandboxClient::with_backend(Arc::clone(&self.backend), policy),
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
