//! Sets of packages that failed to install.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox_core::{Error, Result};
use tokio::time::Instant;

use super::cache::CacheKey;

/// How long a set that failed is not tried again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The sets of packages that failed to install in one client. Each fails at once for a minute.
#[derive(Debug, Default)]
pub struct FailedPackages(Mutex<Vec<FailedInstall>>);

#[derive(Debug)]
struct FailedInstall {
    key: CacheKey,
    at: Instant,
    error: Error,
}

impl FailedPackages {
    /// Forgets all, so that the next request tries again.
    pub fn clear(&self) {
        self.recent().clear();
    }

    /// Returns the error of a set that failed within the last minute.
    pub(super) fn check(&self, key: &CacheKey) -> Result<()> {
        let recent = self.recent();
        let Some(failure) = recent.iter().find(|failure| failure.key == *key) else {
            return Ok(());
        };
        let error = &failure.error;
        let context = format!(
            "{} (it failed {} s ago, and is not tried again for a minute)",
            error.again().context(),
            failure.at.elapsed().as_secs()
        );
        let mut again = Error::new(error.kind(), error.operation(), context);
        if let Some(backend) = error.backend() {
            again = again.on(backend);
        }
        let retry = "clear_failed_packages tries again at once";
        Err(match error.fix() {
            Some(fix) => again.with_fix(format!("{fix}; {retry}")),
            None => again.with_fix(retry),
        })
    }

    pub(super) fn record(&self, key: CacheKey, error: &Error) {
        self.recent().push(FailedInstall {
            key,
            at: Instant::now(),
            error: error.again(),
        });
    }

    /// The failures of the last minute.
    fn recent(&self) -> MutexGuard<'_, Vec<FailedInstall>> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|failure| failure.at.elapsed() < REMEMBERED);
        failures
    }
}
