//! Docker as a sandbox backend: tiers `docker` and `docker_unsafe`.
//!
//! Makes a container without network, with a read-only root and sized writable folders, starts the agent in it from a volume
//! of its own, and hands the attached stream to [`sandbox_host::AgentInstance`]. Images are never pulled.
//!
//! `docker_unsafe` is what the engine does by default, with no policy at all.

mod backend;
mod cgroup;
mod config;
mod doctor;
mod engine;
mod error;
mod image;
mod isolator;
mod labels;
mod launch;
mod lower;
mod removal;
mod report;
mod stream;
mod sweep;
mod volume;

pub use backend::DockerBackend;
pub use config::{DEFAULT_IMAGE, DockerConfig};

use std::sync::Arc;

use sandbox_core::registry::Registration;
use sandbox_core::spi::Backend;

fn open() -> sandbox_core::Result<Arc<dyn Backend>> {
    Ok(Arc::new(DockerBackend::new(DockerConfig::default())))
}

fn open_unsafe() -> sandbox_core::Result<Arc<dyn Backend>> {
    Ok(Arc::new(DockerBackend::without_policy(
        DockerConfig::default(),
    )))
}

/// What was measured of this tier, by `cargo xtask matrix --write`.
const PROFILES: &[(&str, &str)] = &[(
    "docker-2f02fe81.json",
    include_str!("../../../matrix/docker-2f02fe81.json"),
)];

sandbox_core::register!(
    Registration::new(
        backend::TIER,
        "docker",
        "containers on a Docker engine, under the policy",
        open,
    )
    .with_profiles(PROFILES)
);
sandbox_core::register!(
    Registration::new(
        backend::UNSAFE_TIER,
        "docker",
        "containers on a Docker engine as it makes them by default, without any policy",
        open_unsafe,
    )
    .without_policy()
);
