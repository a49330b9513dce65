//! Kubernetes as a sandbox backend: tier `k8s`.
//!
//! A sandbox is a pod without a service account token, with a read-only root and size-limited
//! volumes in memory. The pod starts the agent from a ConfigMap. The backend connects to the agent
//! through the API server's `exec` and reconnects whenever that stream breaks;
//! [`sandbox_host::AgentInstance`] resumes over each new stream. In the profile `hardened`, the
//! agent takes the pod's network down before it serves a client ([`PodProfile`]).
//!
//! Nodes pull missing images only if the configuration or the specification asks for it.

mod adopt;
mod agent;
mod annotations;
mod backend;
mod cluster;
mod config;
mod connection;
mod connector;
mod creation;
mod detached;
mod doctor;
mod egress;
mod environment;
mod error;
mod exec_probe;
mod failure;
#[cfg(feature = "foreign")]
mod foreign;
mod identity;
mod isolator;
mod kernel;
mod labels;
mod launcher;
mod lowering;
#[cfg(feature = "mutants")]
mod mutation;
mod network;
mod observed;
mod packages;
mod pod;
mod pod_sandbox;
mod pool;
mod quantity;
mod report;
mod requested;
mod requests;
mod settings;
mod started_pod;
mod stream;
mod sweep;
mod template;
mod wait;
mod watch;
mod workspace;

use std::sync::Arc;

use sandbox_core::registry::Registration;
use sandbox_core::spi::Backend;

pub use backend::KubernetesBackend;
pub use config::{
    KubernetesConfig, LEASE, POD_TEMPLATE_VARIABLE, PodProfile, SCHEDULING_TIMEOUT, SHORTEST_LEASE,
    START_TIMEOUT,
};
pub use environment::POD_PROFILE_VARIABLE;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use mutation::PodMutation;
pub use pool::{POOL_AGE, POOL_SHAPES, PoolCounts, WarmPool};
pub use requests::{REQUESTS_AT_ONCE, Requests};
pub use sandbox_host::DEFAULT_IMAGE;
pub use sandbox_lang::packages::{PackageSettings, PackageSource, RegistrySource};
pub use template::PodTemplate;

/// The tier's name.
const TIER: &str = "k8s";

fn open() -> sandbox_core::Result<Arc<dyn Backend>> {
    Ok(Arc::new(KubernetesBackend::new(
        KubernetesConfig::from_environment()?,
    )))
}

/// Measured profiles of this tier, written by `cargo xtask matrix --write`; see the build script.
const PROFILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/profiles.rs"));

sandbox_core::register!(
    Registration::new(
        TIER,
        "k8s",
        "pods on a Kubernetes cluster, under the policy",
        open,
    )
    .with_settings(settings::SETTINGS, settings::open_with)
    .with_profiles(PROFILES)
);
