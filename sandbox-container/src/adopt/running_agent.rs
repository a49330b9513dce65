//! The agent in a foreign container, as its engine reports it.

use async_trait::async_trait;
use sandbox_core::Result;
use sandbox_host::StderrTail;
use sandbox_host::adopted::ForeignAgent;

use crate::Tier;
use crate::engine::Engine;
use crate::error::{Operation, engine_error, has_status};

/// The agent in a foreign container.
#[derive(Debug)]
pub(super) struct RunningAgent {
    pub tier: Tier,
    pub engine: Engine,
    pub container: String,
    /// Id of the exec that runs the agent.
    pub execution: String,
    pub stderr_tail: StderrTail,
}

#[async_trait]
impl ForeignAgent for RunningAgent {
    fn tier(&self) -> &str {
        self.tier.name
    }

    fn place(&self) -> String {
        format!("container {}", self.container)
    }

    async fn runs(&self) -> Result<bool> {
        match self.engine.client.inspect_exec(&self.execution).await {
            Ok(execution) => Ok(execution.running != Some(false)),
            // The container is gone.
            Err(error) if has_status(&error, 404) => Ok(false),
            Err(error) => Err(engine_error(self.tier, Operation::Adopt, error)),
        }
    }

    fn stderr_tail(&self) -> &StderrTail {
        &self.stderr_tail
    }
}
