//! Hands a new detached sandbox over from its creator to later clients.

use std::collections::BTreeMap;

use sandbox_agent::protocol::ClientKey;
use sandbox_core::spi::Instance as _;
use sandbox_core::{Plan, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::DetachedRecord;
use crate::{AgentInstance, Sandbox};

/// A new sandbox that is to outlive its creator.
#[derive(Debug)]
pub struct HandOver<'a> {
    tier: &'a str,
    plan: &'a Plan,
    env: BTreeMap<String, String>,
    key: ClientKey,
    has_egress: bool,
}

impl<'a> HandOver<'a> {
    /// Takes what later clients need from the settings that the creator greets the agent with.
    #[must_use]
    pub fn new(tier: &'a str, plan: &'a Plan, sandbox: &Sandbox) -> Self {
        Self {
            tier,
            plan,
            env: sandbox.env.clone(),
            key: sandbox.settings.key.clone(),
            has_egress: sandbox.egress.is_some(),
        }
    }

    /// Stores the record and the key with `write_record`, then connects as a later client with
    /// `attach`. `location` is where later clients find the sandbox. The `first` client is dropped.
    ///
    /// The caller then gives up its ownership without another `await`. So a creation that is
    /// canceled leaves nothing, and one that returns leaves a sandbox.
    ///
    /// # Errors
    ///
    /// Those of `write_record` and `attach`. The caller still owns the sandbox and removes it.
    pub async fn finish<P: Serialize + DeserializeOwned + PartialEq>(
        self,
        first: AgentInstance,
        location: P,
        write_record: impl AsyncFnOnce(&DetachedRecord<P>, &ClientKey) -> Result<()>,
        attach: impl AsyncFnOnce(&DetachedRecord<P>, &ClientKey) -> Result<AgentInstance>,
    ) -> Result<AgentInstance> {
        let enforcement = first.enforcement().clone();
        let record = DetachedRecord::new(self.tier, self.plan, self.env, enforcement, location);
        write_record(&record, &self.key).await?;
        let instance = attach(&record, &self.key).await?;
        drop(first);
        if self.has_egress {
            // As long as its handle lives; another process can follow it.
            let carried = instance.carry_egress(None).await;
            carried.map_err(|error| error.on(self.tier))?;
        }
        Ok(instance)
    }
}
