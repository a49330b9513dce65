//! Turns a new sandbox into a detached one.

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::Result;
use sandbox_host::egress::EgressConfig;
use sandbox_host::state::HandOver;
use sandbox_host::{AgentInstance, Isolator as _};

use super::reconnect;
use super::secret::{self, PodLocation};
use crate::cluster::Cluster;
use crate::creation;
use crate::error::{ClusterOperation, cluster_error};
use crate::isolator::PodIsolator;

/// A pod whose sandbox is to be detached.
#[derive(Debug)]
pub(crate) struct NewDetachedPod<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) pod: &'a Pod,
    pub(crate) hand_over: HandOver<'a>,
    /// Its guard removes the pod until the hand-over is complete.
    pub(crate) isolator: PodIsolator,
    pub(crate) egress: EgressConfig<'a>,
}

impl NewDetachedPod<'_> {
    /// Stores the record and the key, and reconnects as a later client that does not own the
    /// sandbox.
    ///
    /// # Errors
    ///
    /// The sandbox has been removed then, and also if this future is dropped.
    pub(crate) async fn hand_over(self, first: AgentInstance) -> Result<AgentInstance> {
        let Self {
            cluster,
            pod,
            hand_over,
            isolator,
            egress,
        } = self;
        let write_record = async |record: &_, key: &_| {
            let secret = secret::encode(record, key)?;
            // If the response is lost, the garbage collector removes the Secret with the pod.
            let created = creation::create(&cluster.secrets(), &secret).await;
            created.map_err(|error| cluster_error(ClusterOperation::CreateSecret, error))?;
            Ok(())
        };
        let attach = async |record: &_, key: &_| {
            reconnect::attach(cluster, &isolator, record, key, egress).await
        };
        let handed_over = async {
            let location = PodLocation::of(pod)?;
            hand_over
                .finish(first, location, write_record, attach)
                .await
        };
        match handed_over.await {
            Ok(instance) => {
                isolator.release();
                Ok(instance)
            }
            Err(error) => Err(isolator.destroy_after(error).await),
        }
    }
}
