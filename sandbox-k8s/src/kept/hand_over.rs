//! The moment when a sandbox stops to be its creator's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::plan::defaults;
use sandbox_core::spi::Instance as _;
use sandbox_core::{Plan, Result};
use sandbox_host::{AgentInstance, AttachedSandbox, Key};

use super::reconnect;
use super::secret::{self, Place, Record};
use crate::cluster::Cluster;
use crate::error::{Operation, cluster_error};
use crate::isolator::PodIsolator;
use crate::{TIER, creation};

/// A pod whose agent has answered, of a sandbox that is to be detached.
#[derive(Debug)]
pub(crate) struct HandOver<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) plan: &'a Plan,
    pub(crate) pod: &'a Pod,
    pub(crate) key: Key,
    pub(crate) env: BTreeMap<String, String>,
    /// Its guard removes the pod until everything is done.
    pub(crate) isolator: PodIsolator,
}

impl HandOver<'_> {
    /// Writes down the sandbox and its key, and becomes its later client, with which it is nobody's.
    ///
    /// # Errors
    ///
    /// The sandbox has been removed then. So it is when this future is dropped.
    pub(crate) async fn finish(self, first: AgentInstance) -> Result<AgentInstance> {
        match self.try_finish(first).await {
            Ok(instance) => Ok(instance),
            Err(failed) => Err(self.isolator.after(failed).await),
        }
    }

    async fn try_finish(&self, first: AgentInstance) -> Result<AgentInstance> {
        let Self { cluster, plan, .. } = *self;
        let lifetime = plan.lifetime.unwrap_or(defaults::DETACHED_LIFETIME);
        let enforcement = first.enforcement().clone();
        let later = AttachedSandbox::new(plan, self.env.clone(), enforcement.clone());
        let place = Place::of(self.pod)?;
        let env = self.env.clone();
        let record = Record::new(TIER, plan, env, enforcement, lifetime, place);
        let secret = secret::encode(&record, &self.key)?;
        let secrets = cluster.secrets();
        // Where the answer does not come, what was made goes with the pod.
        let kept = creation::create(&secrets, &secret).await;
        kept.map_err(|error| cluster_error(Operation::CreateSecret, error))?;
        let instance = reconnect::attach(cluster, &self.key, later, &self.isolator).await?;
        // Without an await after it: a creation that is given up leaves nothing, one that has returned a sandbox.
        self.isolator.keep();
        drop(first);
        Ok(instance)
    }
}
