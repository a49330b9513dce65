//! The backends that have mutants.

use std::sync::Arc;

use sandbox_core::spi::Backend;
use sandbox_local::{LocalBackend, LocalConfig};

use super::altered::AlteredBackend;
use super::catalog::{MUTANTS, Mutant, MutantChange};
#[cfg(feature = "engines")]
use super::engine_mutants::ENGINE_MUTANTS;
#[cfg(feature = "k8s")]
use super::pod_mutants::POD_MUTANTS;

/// A backend without faults, from which mutants are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MutantBase {
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

impl MutantBase {
    /// All linked ones.
    pub(super) const ALL: &[Self] = &[
        Self::Local,
        #[cfg(feature = "docker")]
        Self::Docker,
        #[cfg(feature = "podman")]
        Self::Podman,
        #[cfg(feature = "k8s")]
        Self::Cluster,
    ];

    /// The tier's name.
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
            Self::Docker => ENGINE_MUTANTS,
            #[cfg(feature = "podman")]
            Self::Podman => ENGINE_MUTANTS,
            #[cfg(feature = "k8s")]
            Self::Cluster => POD_MUTANTS,
        }
    }

    /// The name of a mutant. Other tiers than `local` are a prefix.
    pub(super) fn name(self, mutant: &Mutant) -> String {
        match self {
            Self::Local => mutant.name.to_owned(),
            #[cfg(any(feature = "engines", feature = "k8s"))]
            _ => format!("{}: {}", self.tier(), mutant.name),
        }
    }

    /// The backend with this change, or without a fault.
    pub(super) fn backend(self, change: Option<MutantChange>) -> Arc<dyn Backend> {
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

fn local(change: Option<MutantChange>) -> Arc<dyn Backend> {
    match change {
        Some(MutantChange::Mechanism(mutation)) => {
            Arc::new(LocalBackend::new(LocalConfig::new().mutated(mutation)))
        }
        Some(MutantChange::Alteration(alteration)) => {
            Arc::new(AlteredBackend::new(LocalBackend::default(), alteration))
        }
        _ => Arc::new(LocalBackend::default()),
    }
}

#[cfg(feature = "engines")]
fn engine(change: Option<MutantChange>) -> sandbox_container::ContainerConfig {
    let config = sandbox_container::ContainerConfig::default();
    match change {
        Some(MutantChange::EngineOption(mutation)) => config.mutated(mutation),
        _ => config,
    }
}

/// The cluster's backend with its default profile, which has the most options to leave out.
#[cfg(feature = "k8s")]
fn cluster(change: Option<MutantChange>) -> sandbox_k8s::KubernetesConfig {
    let config = sandbox_k8s::KubernetesConfig::default();
    match change {
        Some(MutantChange::Pod(mutation)) => config.mutated(mutation),
        _ => config,
    }
}
