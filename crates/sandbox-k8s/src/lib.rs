//! Kubernetes as a sandbox backend: tier `k8s`.
//!
//! Makes a pod without a service account's token, with a read-only root and sized volumes in memory, which starts the agent out of a
//! ConfigMap; enters it through the API server's `exec`, and hands that stream to [`sandbox_host::AgentInstance`]. A first step takes
//! the pod's network down, where the namespace allows that ([`PodProfile`]).
//!
//! Images come to the nodes: they pull what they lack where somebody says so, and only then.

mod agent;
mod applied;
mod backend;
mod cluster;
mod config;
mod doctor;
mod error;
mod failure;
mod identity;
mod isolator;
mod labels;
mod lower;
mod pod;
mod report;
mod stream;
mod sweep;
mod wait;

use std::sync::Arc;

use sandbox_core::registry::Registration;
use sandbox_core::spi::Backend;

pub use backend::KubernetesBackend;
pub use config::{DEFAULT_IMAGE, KubernetesConfig, PodProfile, SCHEDULING_TIMEOUT, START_TIMEOUT};

/// The tier's name.
const TIER: &str = "k8s";

fn open() -> sandbox_core::Result<Arc<dyn Backend>> {
    Ok(Arc::new(
        KubernetesBackend::new(KubernetesConfig::default()),
    ))
}

sandbox_core::register!(Registration::new(
    TIER,
    "k8s",
    "pods on a Kubernetes cluster, under the policy",
    open,
));
