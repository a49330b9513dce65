//! Connects a later client to a detached sandbox.

use std::sync::Arc;

use sandbox_core::Result;
use sandbox_host::egress::EgressConfig;
use sandbox_host::{AgentInstance, AttachedSandbox, ClientKey};

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
    egress: EgressConfig<'_>,
) -> Result<AgentInstance> {
    let connector = PodConnector::new(cluster.pods(), isolator);
    let boxed = Box::new(isolator.clone());
    let sandbox = AttachedSandbox::from(record).with_egress(&record.plan, egress)?;
    AgentInstance::attach_by(Arc::new(connector), key, sandbox, boxed).await
}
