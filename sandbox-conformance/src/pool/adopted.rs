//! Sandboxes in containers that another program created.

use sandbox_core::spi::unique_name;
use sandbox_core::{CapabilityPolicy, Error, ErrorKind, SandboxHandle, SandboxSpec};

use super::{ProbeSandbox, SandboxPool, waive};
use crate::engine_api::EngineApi;
use crate::foreign::{Foreign, ForeignContainers};
use crate::program::PROGRAM;

/// A running container that another program created.
pub(crate) struct Adopter<'a> {
    pool: &'a SandboxPool,
    engine: Box<dyn ForeignContainers>,
    container: String,
}

impl SandboxPool {
    /// Starts a container as another program does; `None` if the suite cannot on this tier.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn foreign(&self, foreign: Foreign) -> Result<Option<Adopter<'_>>, Error> {
        let engine = match foreign.options {
            None => self.target.foreign_containers()?,
            Some(_) => {
                let engine = EngineApi::of(self.target.name()).await?;
                engine.map(|engine| Box::new(engine) as _)
            }
        };
        let Some(engine) = engine else {
            return Ok(None);
        };
        let container = engine.start(self.image.as_deref(), foreign).await?;
        Ok(Some(Adopter {
            pool: self,
            engine,
            container,
        }))
    }

    /// Why there is no foreign container on this tier.
    pub(crate) async fn why_no_adoption(&self) -> String {
        let adopted = match self.target.client(CapabilityPolicy::new()) {
            Ok(client) => client.adopt("none", &SandboxSpec::new("none")).await,
            Err(error) => Err(error),
        };
        match adopted {
            Err(error) if error.kind() == ErrorKind::Unsupported => error.to_string(),
            _ => "the suite starts no containers on this tier to adopt".to_owned(),
        }
    }
}

impl Adopter<'_> {
    /// Adopts the container under this policy. Nothing is waived.
    ///
    /// # Errors
    ///
    /// As [`sandbox_core::SandboxClient::adopt`].
    pub(crate) async fn adopt_under(
        &self,
        policy: CapabilityPolicy,
    ) -> Result<SandboxHandle, Error> {
        self.adopt_as(policy, |_| ()).await
    }

    /// As [`Self::adopt_under`], with a specification that is changed by `change`.
    ///
    /// # Errors
    ///
    /// As [`sandbox_core::SandboxClient::adopt`].
    pub(crate) async fn adopt_as(
        &self,
        policy: CapabilityPolicy,
        change: impl FnOnce(&mut SandboxSpec),
    ) -> Result<SandboxHandle, Error> {
        let client = self.pool.target.client(policy)?;
        let mut spec = SandboxSpec::new(unique_name("conformance"));
        change(&mut spec);
        client.adopt(&self.container, &spec).await
    }

    /// This policy without the demands that no adoption of the container meets.
    ///
    /// # Errors
    ///
    /// Errors of the adoption other than its refusal.
    pub(crate) async fn waived(&self, policy: CapabilityPolicy) -> Result<CapabilityPolicy, Error> {
        match self.adopt_under(policy.clone()).await {
            Err(error) if error.kind() == ErrorKind::NotEnforceable => {
                Ok(waive(policy, error.unmet()))
            }
            adopted => adopted.map(|_| policy),
        }
    }

    /// Adopts the container under the default policy, changed by `change`. What the adoption
    /// refuses is waived.
    ///
    /// # Errors
    ///
    /// If the adoption fails.
    pub(crate) async fn adopt(
        &self,
        change: impl FnOnce(&mut CapabilityPolicy),
    ) -> Result<ProbeSandbox, Error> {
        let mut policy = CapabilityPolicy::new();
        change(&mut policy);
        let handle = self.adopt_under(self.waived(policy).await?).await?;
        // The same path each time: the file is the suite's, and no leftover.
        let program = format!("{}/adopted", self.pool.fixture.inside());
        handle.upload(&program, 0o755, PROGRAM).await?;
        Ok(ProbeSandbox {
            handle,
            program,
            waived: Vec::new(),
            broken_claims: Vec::new(),
            has_roots: false,
            is_remote: false,
        })
    }

    /// Removes the container.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn remove(self) -> Result<(), Error> {
        self.engine.remove(&self.container).await
    }
}
