//! Connects a later client to a detached sandbox.

use std::sync::Arc;

use sandbox_core::Result;
use sandbox_host::{AgentInstance, ClientKey};

use super::secret::PodRecord;
use crate::cluster::Cluster;
use crate::connector::PodConnector;
use crate::isolator::PodIsolator;

/// Becomes a client of the agent in a pod. On failure the sandbox stays unchanged.
///
/// # Errors
///
/// Errors of the cluster, and as [`AgentInstance::attach_by`].
pub(super) async fn attach(
    cluster: &Cluster,
    isolator: &PodIsolator,
    record: &PodRecord,
    key: &ClientKey,
) -> Result<AgentInstance> {
    let connector = PodConnector::new(cluster.pods(), isolator);
    let boxed = Box::new(isolator.clone());
    AgentInstance::attach_by(Arc::new(connector), key, record.into(), boxed).await
}
