//! Sandboxes beside the ones that probes share.

use std::sync::Arc;

use sandbox_core::Error;

use super::{Role, Stage};
use crate::evidence::Attempt;
use crate::pool::Sandbox;
use crate::probe::{Setting, Trouble};

impl Stage {
    /// Creates a sandbox with the policy of the one that is attacked, changed by `change`, and ends it.
    ///
    /// # Errors
    ///
    /// What creating and ending it finds.
    pub async fn create(
        &self,
        change: impl FnOnce(&mut sandbox_core::CapabilityPolicy),
    ) -> Result<(), sandbox_core::Error> {
        self.pool.create_other(&self.attacked, change).await
    }

    /// Creates a sandbox of this setting that no other probe uses. Ending it is for the caller.
    ///
    /// # Errors
    ///
    /// What creating it finds.
    pub async fn once(&mut self, setting: &Setting) -> Result<Sandbox, Error> {
        let pool = Arc::clone(&self.pool);
        let sandbox = pool.once(setting).await?;
        self.note(&pool, &sandbox);
        Ok(sandbox)
    }

    /// What it means that there is no sandbox in which a probe could begin.
    pub fn not_created(&mut self, error: Error) -> Attempt {
        self.declined(&error.into())
    }

    /// The tier that is measured.
    #[must_use]
    pub fn tier(&self) -> &str {
        self.pool.target().name()
    }

    /// How many sandboxes an attack on their creation meets; see [`crate::Options::creations`].
    #[must_use]
    pub fn creations(&self) -> u32 {
        self.creations
    }

    /// Does something with the sandbox that is attacked and with another one of the same setting beside it, under a lock.
    ///
    /// # Errors
    ///
    /// When one of them is not there.
    pub async fn with_neighbors<T>(
        &mut self,
        act: impl AsyncFnOnce(&Sandbox, &Sandbox) -> T,
    ) -> Result<T, Attempt> {
        let pool = Arc::clone(&self.pool);
        let place = Arc::clone(&self.attacked);
        let other = pool.place(place.setting().clone().neighbor());
        let sandbox = self.enter(&pool, &place, Role::Attacked).await?;
        let neighbor = self.enter(&pool, &other, Role::Permitting).await?;
        Ok(act(&sandbox, &neighbor).await)
    }

    /// Creates a detached sandbox with the policy of the one that is attacked. Ending it is for the probe; its time to live
    /// ends it where the probe cannot.
    ///
    /// # Errors
    ///
    /// When there is no such sandbox.
    pub async fn keep(
        &mut self,
        name: &str,
        lifetime: std::time::Duration,
    ) -> Result<Sandbox, Attempt> {
        let kept = self.pool.keep(&self.attacked, name, lifetime).await;
        kept.map_err(|declined| self.declined(&declined))
    }

    /// One more client of the backend, under the policy of the sandbox that is attacked.
    ///
    /// # Errors
    ///
    /// When the backend cannot be opened once more.
    pub fn client(&self) -> Result<sandbox_core::SandboxClient, Trouble> {
        Ok(self.pool.client(&self.attacked)?)
    }
}
