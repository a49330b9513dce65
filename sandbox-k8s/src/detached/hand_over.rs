//! Turns a new sandbox into a detached one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::plan::defaults;
use sandbox_core::spi::Instance as _;
use sandbox_core::{Plan, Result};
use sandbox_host::{AgentInstance, AttachedSandbox, Key};

use super::reconnect;
use super::secret::{self, PodLocation, Record};
use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::isolator::PodIsolator;
use crate::{TIER, creation};

/// A pod whose agent has answered, for a sandbox that is to become detached.
#[derive(Debug)]
pub(crate) struct PodHandOver<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) plan: &'a Plan,
    pub(crate) pod: &'a Pod,
    pub(crate) key: Key,
    pub(crate) env: BTreeMap<String, String>,
    /// Its guard removes the pod until the hand-over is complete.
    pub(crate) isolator: PodIsolator,
}

impl PodHandOver<'_> {
    /// Stores the record and the key, and reconnects as a later client that does not own the
    /// sandbox.
    ///
    /// # Errors
    ///
    /// The sandbox has been removed then, and also if this future is dropped.
    pub(crate) async fn finish(self, first: AgentInstance) -> Result<AgentInstance> {
        match self.try_finish(first).await {
            Ok(instance) => Ok(instance),
            Err(failed) => Err(self.isolator.remove_after(failed).await),
        }
    }

    async fn try_finish(&self, first: AgentInstance) -> Result<AgentInstance> {
        let Self { cluster, plan, .. } = *self;
        let lifetime = plan.lifetime.unwrap_or(defaults::DETACHED_LIFETIME);
        let enforcement = first.enforcement().clone();
        let later = AttachedSandbox::new(plan, self.env.clone(), enforcement.clone());
        let location = PodLocation::of(self.pod)?;
        let env = self.env.clone();
        let record = Record::new(TIER, plan, env, enforcement, lifetime, location);
        let secret = secret::encode(&record, &self.key)?;
        let secrets = cluster.secrets();
        // If the response is lost, the garbage collector removes the Secret with the pod.
        let kept = creation::create(&secrets, &secret).await;
        kept.map_err(|error| cluster_error(ClusterOperation::CreateSecret, error))?;
        let instance = reconnect::attach(cluster, &self.key, later, &self.isolator).await?;
        // No await may follow: a creation that is dropped leaves nothing, one that returns leaves a
        // sandbox.
        self.isolator.release();
        drop(first);
        Ok(instance)
    }
}
