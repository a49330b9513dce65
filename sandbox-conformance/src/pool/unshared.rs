//! Sandboxes outside the pool's slots.

use sandbox_core::{Error, ErrorKind};

use super::{BUILD_LIMIT, CreateFailure, ProbeSandbox, SandboxPool, declined};
use crate::probe::SandboxSetup;

impl SandboxPool {
    /// Creates a sandbox outside the pool's slots. The caller ends it.
    ///
    /// # Errors
    ///
    /// If creating it fails; [`ErrorKind::SetupFailed`] if it takes longer than a minute.
    pub async fn once(&self, setup: &SandboxSetup) -> Result<ProbeSandbox, Error> {
        let created = self.create_within_capacity(setup);
        match tokio::time::timeout(BUILD_LIMIT, created).await {
            Ok(created) => created,
            Err(_) => Err(Error::new(
                ErrorKind::SetupFailed,
                "create sandbox",
                format!("it was not created within {BUILD_LIMIT:?}"),
            )),
        }
    }
}

impl From<Error> for CreateFailure {
    fn from(error: Error) -> Self {
        declined(error)
    }
}
