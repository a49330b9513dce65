//! Hands a new detached sandbox over from its creator's stream to a later client.

use std::time::Duration;

use sandbox_core::plan::defaults;
use sandbox_core::{Plan, Result};
use sandbox_host::{AgentInstance, AttachedSandbox, Sandbox};

use super::record_store::{ContainerLocation, Record, RecordStore};
use crate::Tier;
use crate::engine::Engine;
use crate::isolator::ContainerIsolator;
use crate::reconnect::Reconnection;
use crate::stream::AttachStream;

/// A running container whose sandbox is to be detached.
#[derive(Debug)]
pub(crate) struct HandOver<'a> {
    pub(crate) tier: Tier,
    pub(crate) engine: &'a Engine,
    pub(crate) store: &'a RecordStore,
    pub(crate) plan: &'a Plan,
    /// The user that the agent runs as.
    pub(crate) user: String,
    pub(crate) no_network: bool,
    /// The image to remove with the sandbox.
    pub(crate) image: Option<String>,
    /// Its guard removes the container until the hand-over is complete.
    pub(crate) isolator: ContainerIsolator,
}

impl HandOver<'_> {
    /// Time to live of a detached sandbox.
    pub(crate) fn lifetime(plan: &Plan) -> Duration {
        plan.lifetime.unwrap_or(defaults::DETACHED_LIFETIME)
    }

    /// Greets the agent, writes the sandbox's record and key, and reconnects as a later client.
    /// From then on the sandbox outlives this process.
    ///
    /// # Errors
    ///
    /// The sandbox was removed. Dropping this future removes it as well.
    pub(crate) async fn finish(
        self,
        stream: AttachStream,
        sandbox: Sandbox,
    ) -> Result<AgentInstance> {
        let isolator = self.isolator.clone();
        match self.try_finish(stream, sandbox).await {
            Ok(instance) => Ok(instance),
            Err(failure) => Err(isolator.destroy_after(failure).await),
        }
    }

    async fn try_finish(&self, stream: AttachStream, sandbox: Sandbox) -> Result<AgentInstance> {
        let Self {
            tier, engine, plan, ..
        } = *self;
        let sandbox = sandbox.handed_over();
        let key = sandbox.settings.key.clone();
        let (env, enforcement) = (sandbox.env.clone(), sandbox.enforcement.clone());
        let later_client = AttachedSandbox::new(plan, env.clone(), enforcement.clone());
        let isolator = Box::new(self.isolator.clone());
        let first_client = AgentInstance::connect(stream, sandbox, isolator).await?;
        let container = self.isolator.container().to_owned();
        let location = ContainerLocation {
            endpoint: engine.endpoint.to_string(),
            container: container.clone(),
            user: self.user.clone(),
            no_network: self.no_network,
            image: self.image.clone(),
        };
        let record = Record::new(
            tier.name,
            plan,
            env,
            enforcement,
            Self::lifetime(plan),
            location,
        );
        // From here on the agent may outlive this process: remove the record after the container,
        // never before.
        self.isolator
            .attach_record(self.store.write(&record, &key)?);
        let reconnection = Reconnection {
            tier,
            engine,
            container: &container,
            user: &self.user,
            key: &key,
        };
        let instance = reconnection.attach(later_client, &self.isolator).await?;
        // No await may follow: a cancelled creation leaves nothing, a completed one a sandbox.
        self.isolator.detach();
        drop(first_client);
        Ok(instance)
    }
}
