//! Podman as a sandbox backend, rootful or rootless: tiers `podman` and `podman_unsafe`.
//!
//! `sandbox_container` creates the containers over Podman's service with Docker's API. Facts that
//! Docker's API reports wrongly or not at all are queried over Podman's own: the limits of a
//! rootless engine, and the meaning of a short image name. Images are pulled only on request.
//!
//! `podman_unsafe` uses the engine's defaults, without a policy.

mod endpoint;
mod native;

use sandbox_container::{
    ContainerBackend, EngineFamily, Family, PathOptions, ProfileForm, SETTINGS,
};
use sandbox_core::registry::Registration;

pub use sandbox_container::{
    DEFAULT_IMAGE, EngineOptions, PackageSettings, PackageSource, RegistrySource, Ulimit,
};

/// The family of Podman engines.
const FAMILY: &Family = &Family {
    tier: "podman",
    unsafe_tier: "podman_unsafe",
    engine: "Podman",
    command: "podman",
    start: START,
    denied: START,
    is_member: |components| components.iter().any(|name| name.starts_with("Podman")),
    candidates: endpoint::candidates,
    cgroups: &[
        "/libpod_parent/libpod-{id}",
        "/machine.slice/libpod-{id}.scope",
        "/machine.slice/libpod-{id}.scope/container",
    ],
    writable_folders: &["/run", "/tmp", "/var/tmp"],
    // Podman takes an unknown mode ("none") as the host's network.
    no_network_in_builds: "NetworkDisabled",
    skips_network: false,
    keeps_ids: true,
    full_tmpfs: false,
    profile_form: ProfileForm::File,
    path_options: PathOptions::Masks,
    chooses_runtime: false,
    private_users: true,
    native: Some(&native::Libpod),
};

const START: &str = "start Podman's service (`systemctl --user start podman.socket`, as root `systemctl start podman.socket`, \
                     without systemd `podman system service --time=0`), or set CONTAINER_HOST to its address";

/// Podman as a type parameter.
#[derive(Debug)]
pub struct Podman;

impl EngineFamily for Podman {
    const FAMILY: &'static Family = FAMILY;
}

/// Sandboxes as containers of a Podman engine.
///
/// ```no_run
/// use std::sync::Arc;
/// use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};
/// use sandbox_podman::{PodmanBackend, PodmanConfig};
///
/// # async fn example() -> sandbox_core::Result<()> {
/// let config = PodmanConfig::default().host("unix:///run/user/1000/podman/podman.sock");
/// let client = SandboxClient::with_backend(Arc::new(PodmanBackend::new(config)), CapabilityPolicy::new())?;
/// let sandbox = client.create(&SandboxSpec::new("example")).await?;
/// println!("{}", sandbox.shell("id -u").await?.stdout_text());
/// # Ok(()) }
/// ```
pub type PodmanBackend = ContainerBackend<Podman>;

/// The configuration of the backend. If it names no engine, the backend tries in this order:
/// `CONTAINER_HOST`, the connection that `CONTAINER_CONNECTION` or Podman's configuration selects,
/// and the usual sockets, root's first.
pub type PodmanConfig = sandbox_container::ContainerConfig;

/// Measured profiles of this tier, written by `cargo xtask matrix --write`.
const PROFILES: &[(&str, &str)] = &[
    (
        "podman-37d7902b.json",
        include_str!("../matrix/podman-37d7902b.json"),
    ),
    (
        "podman-530f127a.json",
        include_str!("../matrix/podman-530f127a.json"),
    ),
    (
        "podman-f1a023d3.json",
        include_str!("../matrix/podman-f1a023d3.json"),
    ),
];

sandbox_core::register!(
    Registration::new(
        FAMILY.tier,
        "podman",
        "containers on a Podman engine, under the policy",
        PodmanBackend::open,
    )
    .with_settings(SETTINGS, PodmanBackend::open_with)
    .with_profiles(PROFILES)
);
sandbox_core::register!(
    Registration::new(
        FAMILY.unsafe_tier,
        "podman",
        "containers on a Podman engine as it makes them by default, without any policy",
        PodmanBackend::open_without_policy,
    )
    .with_settings(SETTINGS, PodmanBackend::open_without_policy_with)
    .without_policy()
);
