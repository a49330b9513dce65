//! How a pool is filled and emptied, and what is in it.

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// How a [`super::SandboxPool`] is filled and emptied.
///
/// ```
/// use sandbox_core::{Exhausted, PoolSettings};
/// use std::time::Duration;
///
/// let settings = PoolSettings::new(3)
///     .most(20)
///     .lifetime(Duration::from_secs(600))
///     .exhausted(Exhausted::Wait(Duration::from_secs(30)));
/// assert_eq!((settings.ready, settings.most), (3, 20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolSettings {
    /// How many sandboxes wait to be claimed.
    pub ready: usize,
    /// The most sandboxes at a time: those that start, that wait and that are claimed.
    pub most: usize,
    /// How long a sandbox waits at most. Then it is removed and another one starts.
    pub max_age: Duration,
    /// How long a claimed sandbox exists. It is then removed.
    pub lifetime: Option<Duration>,
    /// What happens to a claim when there are as many sandboxes as allowed.
    pub exhausted: Exhausted,
}

/// What happens to a claim when a pool has as many sandboxes as allowed, and none is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// It fails at once with [`ErrorKind::PoolExhausted`].
    Fail,
    /// It waits for the end of another one, and fails with [`ErrorKind::PoolExhausted`] after this
    /// time.
    Wait(Duration),
    /// It gets a sandbox that does not count.
    Temporary,
}

impl PoolSettings {
    /// So many sandboxes wait, and there are at most ten sandboxes, or as many as wait. They wait
    /// for ten minutes. An exhausted pool fails.
    #[must_use]
    pub fn new(ready: usize) -> Self {
        Self {
            ready,
            most: ready.max(10),
            max_age: Duration::from_secs(600),
            lifetime: None,
            exhausted: Exhausted::Fail,
        }
    }

    /// Sets the most sandboxes at a time.
    #[must_use]
    pub fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Sets how long a sandbox waits at most.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Sets how long a claimed sandbox exists.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets what happens to a claim when there are as many sandboxes as allowed.
    #[must_use]
    pub fn exhausted(mut self, exhausted: Exhausted) -> Self {
        self.exhausted = exhausted;
        self
    }

    pub(super) fn validate(&self) -> Result<()> {
        let context = match self {
            Self { most: 0, .. } => "most: must be at least 1".to_owned(),
            Self { ready, most, .. } if ready > most => {
                format!("ready: {ready} are more than the {most} that may exist")
            }
            // Otherwise sandboxes would be replaced without an end.
            Self { max_age, .. } if *max_age < Duration::from_secs(1) => {
                format!("max_age: {max_age:?} is less than a second")
            }
            Self {
                lifetime: Some(Duration::ZERO),
                ..
            } => "lifetime: must be more than 0".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::InvalidRequest, "start pool", context))
    }
}

/// The sandboxes of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Those that wait to be claimed.
    pub ready: usize,
    /// Those that start.
    pub starting: usize,
    /// Those that are claimed, without temporary ones.
    pub claimed: usize,
    /// Claims that wait for one.
    pub waiting: usize,
    /// Why the last one did not start, until another one has started.
    pub failed: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        PoolSettings::new(0).validate().expect("valid");
        assert_eq!(PoolSettings::new(30).most, 30);
        for (settings, field) in [
            (PoolSettings::new(0).most(0), "most"),
            (PoolSettings::new(3).most(2), "ready"),
            (PoolSettings::new(1).max_age(Duration::ZERO), "max_age"),
            (PoolSettings::new(1).lifetime(Duration::ZERO), "lifetime"),
        ] {
            let error = settings.validate().expect_err(field);
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
