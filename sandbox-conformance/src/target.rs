//! What the suite measures: a linked tier, or a backend that the caller supplies.

use std::fmt;
use std::sync::Arc;

use sandbox_core::matrix::ProfileKey;
use sandbox_core::registry::{self, Settings};
use sandbox_core::spi::Backend;
use sandbox_core::{CapabilityPolicy, Result, SandboxClient};

use crate::foreign::{self, ForeignContainers};
use crate::tightened::{self, Tightened};
use crate::warm_pods::{self, WarmPods};

/// A tier or a backend to measure.
#[derive(Clone)]
pub struct Target {
    name: String,
    backend: Arc<dyn Backend>,
    /// The settings that open a linked tier. `None` for a backend outside the registry.
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
    /// The linked tier with this name.
    ///
    /// # Errors
    ///
    /// [`sandbox_core::ErrorKind::UnknownBackend`], and errors of opening the backend.
    pub fn tier(name: &str) -> Result<Self> {
        Self::tier_with(name, Settings::new())
    }

    /// The linked tier with this name, opened with these settings.
    ///
    /// # Errors
    ///
    /// As [`Target::tier`], and [`sandbox_core::ErrorKind::InvalidSpec`] for an unknown setting.
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

    /// A backend outside the registry.
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

    /// Whether the tier refuses what it cannot enforce. An `*_unsafe` tier does not.
    #[must_use]
    pub fn applies_policy(&self) -> bool {
        self.applies_policy
    }

    /// A client with this policy, opened as a user opens it.
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

    /// The containers of the tier that another program creates; `None` if the suite has none.
    ///
    /// # Errors
    ///
    /// Errors of the settings.
    pub(crate) fn foreign_containers(&self) -> Result<Option<Box<dyn ForeignContainers>>> {
        foreign::of(&self.name, &self.settings.clone().unwrap_or_default())
    }

    /// The tier with options of an operator; `None` if it has none.
    ///
    /// # Errors
    ///
    /// Errors of the settings.
    pub(crate) fn tightened(&self) -> Result<Option<Tightened>> {
        tightened::of(&self.name, &self.settings.clone().unwrap_or_default())
    }

    /// The tier with pods that are started ahead; `None` if it has none.
    ///
    /// # Errors
    ///
    /// Errors of the settings.
    pub(crate) fn warm_pods(&self) -> Result<Option<Box<dyn WarmPods>>> {
        warm_pods::of(&self.name, &self.settings.clone().unwrap_or_default())
    }

    /// The properties of this host that change enforcement.
    ///
    /// # Errors
    ///
    /// Errors of the backend; [`sandbox_core::ErrorKind::SandboxUnavailable`] if it cannot run
    /// here.
    pub async fn key(&self) -> Result<ProfileKey> {
        self.backend.profile().await
    }
}
