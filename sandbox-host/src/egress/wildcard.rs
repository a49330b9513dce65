//! Bounds what code can tell the owner of a wildcard's suffix by the names that it looks up.

use std::collections::HashSet;
use std::fmt;

use sandbox_core::policy::HostName;
use tokio::time::Instant;

use super::limits::{MAX_WILDCARD_NAMES, WILDCARD_BURST, WILDCARD_INTERVAL};

/// The names below wildcards that a sandbox has looked up.
#[derive(Debug)]
pub(super) struct WildcardNames {
    seen: HashSet<HostName>,
    /// How many new names may be looked up now.
    ready: u32,
    /// When the last of them became ready.
    since: Instant,
}

/// Why a name may not be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMany {
    InAll,
    AtOnce,
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InAll => write!(
                f,
                "a sandbox looks up at most {MAX_WILDCARD_NAMES} names below wildcards"
            ),
            Self::AtOnce => write!(
                f,
                "{WILDCARD_BURST} new names below wildcards are looked up at once, then one a second"
            ),
        }
    }
}

impl WildcardNames {
    pub(super) fn new() -> Self {
        Self {
            seen: HashSet::new(),
            ready: WILDCARD_BURST,
            since: Instant::now(),
        }
    }

    /// Counts a name that is about to be looked up.
    pub(super) fn take(&mut self, name: &HostName) -> Result<(), TooMany> {
        if self.seen.contains(name) {
            return Ok(());
        }
        if self.seen.len() >= MAX_WILDCARD_NAMES {
            return Err(TooMany::InAll);
        }
        self.refill();
        self.ready = self.ready.checked_sub(1).ok_or(TooMany::AtOnce)?;
        self.seen.insert(name.clone());
        Ok(())
    }

    fn refill(&mut self) {
        let intervals = self.since.elapsed().as_nanos() / WILDCARD_INTERVAL.as_nanos();
        let missing = WILDCARD_BURST - self.ready;
        match u32::try_from(intervals) {
            Ok(intervals) if intervals < missing => {
                self.ready += intervals;
                self.since += WILDCARD_INTERVAL * intervals;
            }
            _ => {
                self.ready = WILDCARD_BURST;
                self.since = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn name(number: usize) -> HostName {
        HostName::new(&format!("n{number}.example.org")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn new_names_are_limited_in_rate_and_number() {
        let mut names = WildcardNames::new();
        let burst = WILDCARD_BURST as usize;
        for number in 0..burst {
            assert_eq!(names.take(&name(number)), Ok(()));
        }
        assert_eq!(names.take(&name(burst)), Err(TooMany::AtOnce));
        assert_eq!(names.take(&name(0)), Ok(()));
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(names.take(&name(burst)), Ok(()));
        assert_eq!(names.take(&name(burst + 1)), Err(TooMany::AtOnce));
        // The half second is not lost.
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(names.take(&name(burst + 1)), Ok(()));
        for number in burst + 2..MAX_WILDCARD_NAMES {
            tokio::time::advance(WILDCARD_INTERVAL).await;
            assert_eq!(names.take(&name(number)), Ok(()));
        }
        tokio::time::advance(WILDCARD_INTERVAL * 1000).await;
        assert_eq!(names.take(&name(MAX_WILDCARD_NAMES)), Err(TooMany::InAll));
        assert_eq!(names.take(&name(5)), Ok(()));
    }
}
