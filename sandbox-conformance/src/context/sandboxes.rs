//! Sandboxes that probes do not share.

use std::sync::Arc;

use sandbox_core::support::Support;
use sandbox_core::{CapabilityPolicy, Error, Plan, SandboxClient, SandboxSpec};

use super::{ProbeContext, SlotRole};
use crate::evidence::Attempt;
use crate::pool::ProbeSandbox;
use crate::probe::{ProbeError, SandboxSetup};
use crate::tightened::Tightened;
use crate::warm_pods::WarmPods;

impl ProbeContext {
    /// Creates a sandbox with the attacked sandbox's policy, changed by `change`, and ends it.
    ///
    /// # Errors
    ///
    /// If creating or ending it fails.
    pub async fn create(
        &self,
        change: impl FnOnce(&mut sandbox_core::CapabilityPolicy),
    ) -> Result<(), sandbox_core::Error> {
        self.pool.create_and_kill(&self.attack_slot, change).await
    }

    /// Creates a sandbox from the attacked sandbox's policy and specification, changed by `change`,
    /// and ends it. With `plan_only`, only plans it.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub async fn admit(
        &self,
        change: impl FnOnce(&mut CapabilityPolicy, &mut SandboxSpec),
        plan_only: bool,
    ) -> Result<(), Error> {
        if plan_only {
            return self.plan(change).map(drop);
        }
        let (client, spec) = self.changed(change)?;
        client.create(&spec).await?.kill().await
    }

    /// The plan of a changed policy and specification. Creates nothing.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn plan(
        &self,
        change: impl FnOnce(&mut CapabilityPolicy, &mut SandboxSpec),
    ) -> Result<Plan, Error> {
        let (client, spec) = self.changed(change)?;
        client.plan(&spec)
    }

    /// What the backend says to a changed policy and specification. Creates nothing.
    ///
    /// # Errors
    ///
    /// As of [`SandboxClient::check`].
    pub async fn check(
        &self,
        change: impl FnOnce(&mut CapabilityPolicy, &mut SandboxSpec),
    ) -> Result<Support, Error> {
        let (client, spec) = self.changed(change)?;
        client.check(&spec).await
    }

    fn changed(
        &self,
        change: impl FnOnce(&mut CapabilityPolicy, &mut SandboxSpec),
    ) -> Result<(SandboxClient, SandboxSpec), Error> {
        let (client, mut spec) = self.pool.client_and_spec(&self.attack_slot, &[])?;
        // Sizes that only make room for many pods could exceed a changed policy.
        (spec.memory, spec.cpus) = (None, None);
        let mut policy = client.policy().clone();
        change(&mut policy, &mut spec);
        Ok((self.pool.target().client(policy)?, spec))
    }

    /// Creates a sandbox that no other probe uses. The caller ends it.
    ///
    /// # Errors
    ///
    /// If creating it fails.
    pub async fn once(&mut self, setup: &SandboxSetup) -> Result<ProbeSandbox, Error> {
        let pool = Arc::clone(&self.pool);
        let sandbox = pool.once(setup).await?;
        self.record_enforcement(&pool, &sandbox);
        Ok(sandbox)
    }

    /// Records why the first sandbox of a probe could not be created.
    pub fn record_create_error(&mut self, error: Error) -> Attempt {
        self.declined(&error.into())
    }

    /// The measured tier.
    #[must_use]
    pub fn tier(&self) -> &str {
        self.pool.target().name()
    }

    /// How many sandboxes are created during an attack on their creation; see
    /// [`crate::Options::creations`].
    #[must_use]
    pub fn creations(&self) -> u32 {
        self.creations
    }

    /// Calls `act` with the attacked sandbox and a second one with the same setup, under a lock.
    ///
    /// # Errors
    ///
    /// If one of them cannot be created.
    pub async fn with_neighbors<T>(
        &mut self,
        act: impl AsyncFnOnce(&ProbeSandbox, &ProbeSandbox) -> T,
    ) -> Result<T, Attempt> {
        let pool = Arc::clone(&self.pool);
        let slot = Arc::clone(&self.attack_slot);
        let other = pool.slot(slot.setup().clone().neighbor());
        let sandbox = self.enter(&pool, &slot, SlotRole::Attack).await?;
        let neighbor = self.enter(&pool, &other, SlotRole::AllowControl).await?;
        Ok(act(&sandbox, &neighbor).await)
    }

    /// Creates a detached sandbox with the attacked sandbox's policy, and with this lifetime in its
    /// specification. The probe ends it; otherwise its time to live does.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub async fn keep(
        &mut self,
        name: &str,
        lifetime: impl Into<Option<std::time::Duration>>,
    ) -> Result<ProbeSandbox, Attempt> {
        let kept = self.pool.keep(&self.attack_slot, name, lifetime.into());
        let kept = kept.await;
        kept.map_err(|declined| self.declined(&declined))
    }

    /// A client whose policy demands only what this host enforces, and the specification of the
    /// attacked sandbox.
    ///
    /// # Errors
    ///
    /// If there is no such sandbox.
    pub async fn client_and_spec(&mut self) -> Result<(SandboxClient, SandboxSpec), Attempt> {
        let waived = self
            .with_sandbox(async |sandbox| sandbox.waived().to_vec())
            .await?;
        self.pool
            .client_and_spec(&self.attack_slot, &waived)
            .map_err(|error| Attempt::unclear(error.to_string()))
    }

    /// Opens another client of the backend, under the attacked sandbox's policy.
    ///
    /// # Errors
    ///
    /// If the backend cannot be opened again.
    pub fn client(&self) -> Result<SandboxClient, ProbeError> {
        Ok(self.pool.client(&self.attack_slot)?)
    }

    /// Opens another client of the backend, under this policy.
    ///
    /// # Errors
    ///
    /// If the backend cannot be opened again, or the policy is not valid.
    pub fn client_under(&self, policy: CapabilityPolicy) -> Result<SandboxClient, Error> {
        self.pool.target().client(policy)
    }

    /// The tier with options of an operator; `None` if it has none.
    ///
    /// # Errors
    ///
    /// Errors of the settings.
    pub(crate) fn tightened(&self) -> Result<Option<Tightened>, Error> {
        self.pool.target().tightened()
    }

    /// The tier with pods that are started ahead; `None` if it has none.
    ///
    /// # Errors
    ///
    /// Errors of the settings.
    pub(crate) fn warm_pods(&self) -> Result<Option<Box<dyn WarmPods>>, Error> {
        self.pool.target().warm_pods()
    }
}
