//! Containers that another program created, as the suite starts them on the tiers that adopt.

mod opened;

use async_trait::async_trait;
use sandbox_core::Result;
use sandbox_core::registry::Settings;

/// A container as another program creates it.
#[cfg_attr(
    not(any(feature = "engines", feature = "k8s")),
    expect(dead_code, reason = "no linked backend creates one")
)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Foreign {
    /// Its user and group.
    pub(crate) user: u32,
    /// Whether it has a capability that containers do not have by default.
    pub(crate) opened: bool,
    /// More options, as the JSON of the engine's API (`HostConfig`). Only engines have them.
    pub(crate) options: Option<&'static str>,
}

/// Starts and removes containers that are no sandboxes.
#[async_trait]
pub(crate) trait ForeignContainers: Send + Sync {
    /// Starts one and returns its name.
    async fn start(&self, image: Option<&str>, foreign: Foreign) -> Result<String>;

    /// Removes one, if it is still there.
    async fn remove(&self, name: &str) -> Result<()>;
}

/// Opens a tier's engine with its settings.
type Open = fn(&Settings) -> Result<Box<dyn ForeignContainers>>;

/// The tiers on which the suite can start them. Tiers without a policy promise nothing.
const TIERS: &[(&str, Open)] = &[
    #[cfg(feature = "docker")]
    ("docker", |settings| {
        let config = sandbox_docker::DockerConfig::default().with_settings(settings)?;
        Ok(Box::new(sandbox_docker::DockerBackend::new(config)))
    }),
    #[cfg(feature = "k8s")]
    ("k8s", |settings| {
        let config = sandbox_k8s::KubernetesConfig::from_environment()?;
        let config = config.with_settings(settings)?;
        Ok(Box::new(sandbox_k8s::KubernetesBackend::new(config)))
    }),
    #[cfg(feature = "podman")]
    ("podman", |settings| {
        let config = sandbox_podman::PodmanConfig::default().with_settings(settings)?;
        Ok(Box::new(sandbox_podman::PodmanBackend::new(config)))
    }),
];

/// The foreign containers of a tier; `None` if the suite cannot start them.
///
/// # Errors
///
/// Errors of the settings.
pub(crate) fn of(tier: &str, settings: &Settings) -> Result<Option<Box<dyn ForeignContainers>>> {
    let found = TIERS.iter().find(|(name, _)| *name == tier);
    found.map(|(_, open)| open(settings)).transpose()
}

/// The backends have the same two functions, and no trait for them.
#[cfg(any(feature = "engines", feature = "k8s"))]
macro_rules! foreign_containers {
    ($backend:ty $(, $family:ident: $bound:path)?) => {
        #[async_trait]
        impl $(<$family: $bound>)? ForeignContainers for $backend {
            async fn start(&self, image: Option<&str>, foreign: Foreign) -> Result<String> {
                self.start_foreign(image, foreign.user, foreign.opened).await
            }

            async fn remove(&self, name: &str) -> Result<()> {
                self.remove_foreign(name).await
            }
        }
    };
}

#[cfg(feature = "engines")]
foreign_containers!(sandbox_container::ContainerBackend<F>, F: sandbox_container::EngineFamily);
#[cfg(feature = "k8s")]
foreign_containers!(sandbox_k8s::KubernetesBackend);
