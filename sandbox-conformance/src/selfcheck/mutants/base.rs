//! The backends of which there are mutants.

use std::sync::Arc;

use sandbox_core::spi::Backend;
use sandbox_local::{LocalBackend, LocalConfig};

use super::altered::AlteredBackend;
use super::catalog::{Change, MUTANTS, Mutant};
#[cfg(feature = "engines")]
use super::lies::LIES;
#[cfg(feature = "k8s")]
use super::pods::PODS;

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
    /// A cluster.
    #[cfg(feature = "k8s")]
    Cluster,
}

impl Base {
    /// All that are linked.
    pub(super) const ALL: &[Self] = &[
        Self::Local,
        #[cfg(feature = "docker")]
        Self::Docker,
        #[cfg(feature = "podman")]
        Self::Podman,
        #[cfg(feature = "k8s")]
        Self::Cluster,
    ];

    /// The tier.
    pub(super) fn tier(self) -> &'static str {
        match self {
            Self::Local => "local",
            #[cfg(feature = "docker")]
            Self::Docker => "docker",
            #[cfg(feature = "podman")]
            Self::Podman => "podman",
            #[cfg(feature = "k8s")]
            Self::Cluster => "k8s",
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
            #[cfg(feature = "k8s")]
            Self::Cluster => PODS,
        }
    }

    /// What a mutant of it is called: on the local tier, where the suite proves itself, by its name alone.
    pub(super) fn name(self, mutant: &Mutant) -> String {
        match self {
            Self::Local => mutant.name.to_owned(),
            #[cfg(any(feature = "engines", feature = "k8s"))]
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
            #[cfg(feature = "k8s")]
            Self::Cluster => Arc::new(sandbox_k8s::KubernetesBackend::new(cluster(change))),
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

/// Of the profile that has the most to leave out.
#[cfg(feature = "k8s")]
fn cluster(change: Option<Change>) -> sandbox_k8s::KubernetesConfig {
    let config = sandbox_k8s::KubernetesConfig::default();
    match change {
        Some(Change::Pod(mutation)) => config.mutated(mutation),
        _ => config,
    }
}
