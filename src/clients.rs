//! Clients of each backend, with its typed configuration.

#[cfg(any(
    feature = "local",
    feature = "docker",
    feature = "podman",
    feature = "k8s"
))]
use {
    sandbox_core::{CapabilityPolicy, Result, SandboxClient},
    std::sync::Arc,
};

#[cfg(feature = "docker")]
pub use sandbox_docker::DockerConfig;
#[cfg(feature = "k8s")]
pub use sandbox_k8s::{KubernetesConfig, PodProfile, PodTemplate, WarmPool};
#[cfg(feature = "local")]
pub use sandbox_local::LocalConfig;
#[cfg(feature = "podman")]
pub use sandbox_podman::PodmanConfig;

// Several backends share these types.
#[cfg(feature = "docker")]
pub use sandbox_docker::{EngineOptions, PackageSettings, PackageSource, RegistrySource, Ulimit};
#[cfg(all(feature = "local", not(any(feature = "docker", feature = "podman"))))]
pub use sandbox_local::{PackageSettings, PackageSource, RegistrySource};
#[cfg(all(feature = "podman", not(feature = "docker")))]
pub use sandbox_podman::{EngineOptions, PackageSettings, PackageSource, RegistrySource, Ulimit};

/// Opens a client of the local Linux kernel, with the default configuration.
///
/// ```
/// use sandbox::{ByteSize, CapabilityPolicy};
///
/// let client = sandbox::local(CapabilityPolicy::new().memory(ByteSize::mib(256)))?;
/// assert_eq!(client.tier(), "local");
/// # Ok::<(), sandbox::Error>(())
/// ```
///
/// # Errors
///
/// [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy).
#[cfg(feature = "local")]
pub fn local(policy: CapabilityPolicy) -> Result<SandboxClient> {
    local_with(LocalConfig::new(), policy)
}

/// Opens a client of the local Linux kernel.
///
/// # Errors
///
/// [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy).
#[cfg(feature = "local")]
pub fn local_with(config: LocalConfig, policy: CapabilityPolicy) -> Result<SandboxClient> {
    let backend = sandbox_local::LocalBackend::new(config);
    SandboxClient::with_backend(Arc::new(backend), policy)
}

/// Opens a client of a Docker engine. It connects on first use.
///
/// ```
/// use sandbox::{CapabilityPolicy, DockerConfig};
///
/// let config = DockerConfig::default().default_image("alpine:3.22");
/// let client = sandbox::docker(config, CapabilityPolicy::new())?;
/// assert_eq!(client.tier(), "docker");
/// # Ok::<(), sandbox::Error>(())
/// ```
///
/// # Errors
///
/// [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy).
#[cfg(feature = "docker")]
pub fn docker(config: DockerConfig, policy: CapabilityPolicy) -> Result<SandboxClient> {
    let backend = sandbox_docker::DockerBackend::new(config);
    SandboxClient::with_backend(Arc::new(backend), policy)
}

/// Opens a client of a Podman engine. It connects on first use.
///
/// ```
/// use sandbox::{CapabilityPolicy, PodmanConfig};
///
/// let config = PodmanConfig::default().host("unix:///run/user/1000/podman/podman.sock");
/// let client = sandbox::podman(config, CapabilityPolicy::new())?;
/// assert_eq!(client.tier(), "podman");
/// # Ok::<(), sandbox::Error>(())
/// ```
///
/// # Errors
///
/// [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy).
#[cfg(feature = "podman")]
pub fn podman(config: PodmanConfig, policy: CapabilityPolicy) -> Result<SandboxClient> {
    let backend = sandbox_podman::PodmanBackend::new(config);
    SandboxClient::with_backend(Arc::new(backend), policy)
}

/// Opens a client of a Kubernetes cluster. It connects on first use.
///
/// The tier `k8s` uses [`KubernetesConfig::from_environment`] instead of the defaults.
///
/// ```
/// use sandbox::{CapabilityPolicy, KubernetesConfig};
///
/// let config = KubernetesConfig::default().namespace("sandboxes");
/// let client = sandbox::k8s(config, CapabilityPolicy::new())?;
/// assert_eq!(client.tier(), "k8s");
/// # Ok::<(), sandbox::Error>(())
/// ```
///
/// # Errors
///
/// [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy).
#[cfg(feature = "k8s")]
pub fn k8s(config: KubernetesConfig, policy: CapabilityPolicy) -> Result<SandboxClient> {
    let backend = sandbox_k8s::KubernetesBackend::new(config);
    SandboxClient::with_backend(Arc::new(backend), policy)
}
