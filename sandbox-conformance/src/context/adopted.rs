//! Containers of a probe that another program created.

use std::sync::Arc;

use super::ProbeContext;
use crate::evidence::Attempt;
use crate::foreign::Foreign;
use crate::pool::Adopter;
use crate::probe::ProbeError;

impl ProbeContext {
    /// Calls `act` with a foreign container, and removes it. A tier without one does not offer it.
    ///
    /// # Errors
    ///
    /// If the container cannot be started or removed.
    pub(crate) async fn adopting(
        &mut self,
        foreign: Foreign,
        act: impl AsyncFnOnce(&Adopter<'_>) -> sandbox_core::Result<Option<String>>,
    ) -> Result<Result<Option<String>, Attempt>, ProbeError> {
        let pool = Arc::clone(&self.pool);
        let Some(adopter) = pool.foreign(foreign).await? else {
            self.not_offered(pool.why_no_adoption().await);
            return Ok(Ok(None));
        };
        let deviation = act(&adopter).await;
        adopter.remove().await?;
        Ok(deviation.map_err(|error| Attempt::unclear(error.to_string())))
    }
}
