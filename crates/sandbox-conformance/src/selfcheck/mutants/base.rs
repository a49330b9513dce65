//! The backends of which there are mutants.

use std::sync::Arc;

use sandbox_core::spi::Backend;
use sandbox_local::{LocalBackend, LocalConfig};

use super::altered::AlteredBackend;
use super::catalog::{Change, MUTANTS, Mutant};
#[cfg(feature = "engines")]
use super::lies::LIES;

/// A backend that is as it claims, and from which mutants are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// The local kernel.
    Local,
    /// Docker's engine.
    #[cfg(feature = "docker")]
    Docker,
    /// Podman's engine.
    #[cfg(feature = "podman")]
    Podman,
}

impl Base {
    /// All that are linked.
    pub(super) const ALL: &[Self] = &[
        Self::Local,
        #[cfg(feature = "docker")]
        Self::Docker,
        #[cfg(feature = "podman")]
        Self::Podman,
    ];

    /// The tier.
    pub(super) fn tier(self) -> &'static str {
        match self {
            Self::Local => "local",
            #[cfg(feature = "docker")]
            Self::Docker => "docker",
            #[cfg(feature = "podman")]
            Self::Podman => "podman",
        }
    }

    /// Its mutants.
    pub(super) fn mutants(self) -> &'static [Mutant] {
        match self {
            Self::Local => MUTANTS,
            #[cfg(feature = "docker")]
            Self::Docker => LIES,
            #[cfg(feature = "podman")]
            Self::Podman => LIES,
        }
    }

    /// What a mutant of it is called: on the local tier, where the suite proves itself, by its name alone.
    pub(super) fn name(self, mutant: &Mutant) -> String {
        match self {
            Self::Local => mutant.name.to_owned(),
            #[cfg(feature = "engines")]
            _ => format!("{}: {}", self.tier(), mutant.name),
        }
    }

    /// The backend with this change, or as it is.
    pub(super) fn backend(self, change: Option<Change>) -> Arc<dyn Backend> {
        match self {
            Self::Local => local(change),
            #[cfg(feature = "docker")]
            Self::Docker => Arc::new(sandbox_docker::DockerBackend::new(engine(change))),
            #[cfg(feature = "podman")]
            Self::Podman => Arc::new(sandbox_podman::PodmanBackend::new(engine(change))),
        }
    }
}

fn local(change: Option<Change>) -> Arc<dyn Backend> {
    match change {
        Some(Change::Mechanism(mutation)) => {
            Arc::new(LocalBackend::new(LocalConfig::new().mutated(mutation)))
        }
        Some(Change::Alteration(alteration)) => {
            Arc::new(AlteredBackend::new(LocalBackend::default(), alteration))
        }
        _ => Arc::new(LocalBackend::default()),
    }
}

#[cfg(feature = "engines")]
fn engine(change: Option<Change>) -> sandbox_container::ContainerConfig {
    let config = sandbox_container::ContainerConfig::default();
    match change {
        Some(Change::Lie(mutation)) => config.mutated(mutation),
        _ => config,
    }
}
