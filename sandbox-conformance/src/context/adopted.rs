//! Containers of a probe that another program created.

use std::sync::Arc;

use futures_util::future::join_all;
use sandbox_core::{CapabilityPolicy, Error};

use super::ProbeContext;
use crate::evidence::Attempt;
use crate::foreign::Foreign;
use crate::pool::{Adopter, SandboxPool};
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

    /// Adopts each of these containers under this policy at the same time, and removes them.
    /// Returns the answers. A tier without such a container does not offer it, and gives none.
    ///
    /// # Errors
    ///
    /// If a container cannot be started or removed.
    pub(crate) async fn adopt_each(
        &mut self,
        all: &[Foreign],
        policy: &CapabilityPolicy,
    ) -> Result<Vec<Result<(), Error>>, ProbeError> {
        let pool = Arc::clone(&self.pool);
        let adoptions = all
            .iter()
            .map(|one| adopt_once(&pool, *one, policy.clone()));
        let mut answers = Vec::new();
        for answer in join_all(adoptions).await {
            match answer? {
                Some(answer) => answers.push(answer),
                None => self.not_offered(pool.why_no_adoption().await),
            }
        }
        Ok(answers)
    }
}

/// The answer to the adoption of a container that exists only for it; `None` if there is none.
async fn adopt_once(
    pool: &SandboxPool,
    foreign: Foreign,
    policy: CapabilityPolicy,
) -> Result<Option<Result<(), Error>>, ProbeError> {
    let Some(adopter) = pool.foreign(foreign).await? else {
        return Ok(None);
    };
    let adopted = adopter.adopt_under(policy).await;
    let ended = match adopted {
        Ok(sandbox) => sandbox.kill().await,
        Err(error) => Err(error),
    };
    adopter.remove().await?;
    Ok(Some(ended))
}
