//! Optional: running code in containers that the backend did not create.

use async_trait::async_trait;

use super::Instance;
use crate::{EnforcementReport, Plan, Result};

/// Runs code in existing containers. See [`crate::SandboxClient::adopt`].
#[async_trait]
pub trait Adopt: Send + Sync {
    /// Reports what would be enforced for a plan in an existing container.
    async fn assess_adopted(&self, container: &str, plan: &Plan) -> Result<EnforcementReport>;

    /// Enters a running container, given by id or name.
    ///
    /// # Behavior
    ///
    /// - Never stops, removes or changes the container. When the instance ends, it ends its
    ///   executions and removes the agent from the container.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::SandboxNotFound`] if there is no such container,
    /// [`crate::ErrorKind::SandboxEnded`] if it does not run.
    async fn adopt(&self, container: &str, plan: &Plan) -> Result<Box<dyn Instance>>;
}
