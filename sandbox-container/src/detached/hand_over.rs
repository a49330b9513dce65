//! Turns a new sandbox into a detached one.

use sandbox_core::{Plan, Result};
use sandbox_host::egress::EgressConfig;
use sandbox_host::state::HandOver;
use sandbox_host::{AgentInstance, Isolator as _, Sandbox};

use super::record_store::{ContainerLocation, RecordStore};
use crate::isolator::ContainerIsolator;
use crate::reconnect;
use crate::stream::AttachStream;

/// A running container whose sandbox is to be detached.
#[derive(Debug)]
pub(crate) struct NewDetached<'a> {
    pub(crate) store: &'a RecordStore,
    pub(crate) plan: &'a Plan,
    /// The user that the agent runs as.
    pub(crate) user: String,
    /// The image to remove with the sandbox.
    pub(crate) image: Option<String>,
    /// Its guard removes the container until the hand-over is complete.
    pub(crate) isolator: ContainerIsolator,
    pub(crate) egress: EgressConfig<'a>,
}

impl NewDetached<'_> {
    /// Greets the agent, writes the sandbox's record and key, and reconnects as a later client.
    /// From then on the sandbox outlives this process.
    ///
    /// # Errors
    ///
    /// The sandbox was removed. Dropping this future removes it as well.
    pub(crate) async fn hand_over(
        self,
        stream: AttachStream,
        sandbox: Sandbox,
    ) -> Result<AgentInstance> {
        let Self {
            store,
            plan,
            user,
            image,
            isolator,
            egress,
        } = self;
        let sandbox = sandbox.detached_after_attach();
        let location = ContainerLocation {
            endpoint: isolator.engine().endpoint.to_string(),
            container: isolator.container().to_owned(),
            user,
            no_network: isolator.has_no_network(),
            image,
        };
        let hand_over = HandOver::new(isolator.tier().name, plan, &sandbox);
        let first = AgentInstance::connect(stream, sandbox, Box::new(isolator.clone())).await?;
        // Once the record exists, the agent may outlive this process: remove the record after the
        // container, never before.
        let write_record = async |record: &_, key: &_| {
            isolator.attach_record(store.write(record, key)?);
            Ok(())
        };
        let attach =
            async |record: &_, key: &_| reconnect::attach(&isolator, record, key, egress).await;
        match hand_over
            .finish(first, location, write_record, attach)
            .await
        {
            Ok(instance) => {
                isolator.detach();
                Ok(instance)
            }
            Err(error) => Err(isolator.destroy_after(error).await),
        }
    }
}
