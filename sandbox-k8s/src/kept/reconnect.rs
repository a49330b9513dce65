//! Connects a later client to a detached sandbox.

use std::sync::Arc;

use sandbox_core::Result;
use sandbox_host::{AgentInstance, AttachedSandbox, Key};

use crate::cluster::Cluster;
use crate::isolator::PodIsolator;
use crate::reach::PodReach;

/// Becomes a client of the agent in a pod. On failure the sandbox stays unchanged.
///
/// # Errors
///
/// Errors of the cluster, and as [`AgentInstance::attach_by`].
pub(super) async fn attach(
    cluster: &Cluster,
    key: &Key,
    sandbox: AttachedSandbox,
    isolator: &PodIsolator,
) -> Result<AgentInstance> {
    let reach = PodReach::new(cluster.pods(), isolator.pod().clone());
    isolator.listen_to(reach.last_words());
    let boxed = Box::new(isolator.clone());
    AgentInstance::attach_by(Arc::new(reach), key, sandbox, boxed).await
}
