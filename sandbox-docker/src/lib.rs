//! Docker as a sandbox backend: tiers `docker` and `docker_unsafe`.
//!
//! `docker` creates a container without network, with a read-only root and writable folders of a
//! fixed size. The agent runs from its own volume. `sandbox_container` implements all of this.
//! Images are pulled only on request.
//!
//! `docker_unsafe` uses the engine's defaults, without a policy.

mod endpoint;

use sandbox_container::{
    ContainerBackend, EngineFamily, Family, PathOptions, ProfileForm, SETTINGS,
};
use sandbox_core::registry::Registration;

pub use sandbox_container::{
    DEFAULT_IMAGE, EngineOptions, PackageSettings, PackageSource, RegistrySource, Ulimit,
};

/// The family of Docker engines.
const FAMILY: &Family = &Family {
    tier: "docker",
    unsafe_tier: "docker_unsafe",
    engine: "Docker",
    command: "docker",
    start: "start Docker (`systemctl start docker`), or set DOCKER_HOST to its address",
    denied: "add your user to the group that owns the socket, or use a rootless engine",
    is_member: |components| !components.iter().any(|name| name.starts_with("Podman")),
    candidates: endpoint::candidates,
    cgroups: &["/docker/{id}", "/system.slice/docker-{id}.scope"],
    profile_form: ProfileForm::Text,
    path_options: PathOptions::Lists,
    chooses_runtime: true,
    private_users: false,
    writable_folders: &[],
    no_network_in_builds: "none",
    skips_network: true,
    keeps_ids: false,
    full_tmpfs: true,
    native: None,
};

/// Docker as a type parameter.
#[derive(Debug)]
pub struct Docker;

impl EngineFamily for Docker {
    const FAMILY: &'static Family = FAMILY;
}

/// Sandboxes as containers of a Docker engine.
///
/// ```no_run
/// use std::sync::Arc;
/// use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};
/// use sandbox_docker::{DockerBackend, DockerConfig};
///
/// # async fn example() -> sandbox_core::Result<()> {
/// let backend = DockerBackend::new(DockerConfig::default().default_image("alpine:3.22"));
/// let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
/// let sandbox = client.create(&SandboxSpec::new("example")).await?;
/// println!("{}", sandbox.shell("id -u").await?.stdout_text());
/// # Ok(()) }
/// ```
pub type DockerBackend = ContainerBackend<Docker>;

/// The configuration of the backend. If it names no engine, the backend tries `DOCKER_HOST`, the
/// current Docker context, and the usual sockets, in this order.
pub type DockerConfig = sandbox_container::ContainerConfig;

/// Measured profiles of this tier, written by `cargo xtask matrix --write`.
const PROFILES: &[(&str, &str)] = &[
    (
        "docker-394c48e2.json",
        include_str!("../matrix/docker-394c48e2.json"),
    ),
    (
        "docker-ebba8026.json",
        include_str!("../matrix/docker-ebba8026.json"),
    ),
];

sandbox_core::register!(
    Registration::new(
        FAMILY.tier,
        "docker",
        "containers on a Docker engine, under the policy",
        DockerBackend::open,
    )
    .with_settings(SETTINGS, DockerBackend::open_with)
    .with_profiles(PROFILES)
);
sandbox_core::register!(
    Registration::new(
        FAMILY.unsafe_tier,
        "docker",
        "containers on a Docker engine as it makes them by default, without any policy",
        DockerBackend::open_without_policy,
    )
    .with_settings(SETTINGS, DockerBackend::open_without_policy_with)
    .without_policy()
);
