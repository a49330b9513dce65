//! Removes leftovers of killed owners, and sandboxes past their lifetime.

use std::time::{SystemTime, UNIX_EPOCH};

use sandbox_core::{Error, Result};

use crate::Tier;
use crate::engine::{Engine, Listed};
use crate::image;
use crate::labels;
use crate::origin;
use crate::owner::{Claim, Owner, Standing};
use crate::removal;

/// Age in seconds after which a container of an unknown owner that does not run is a leftover:
/// owners start theirs within a second.
const AGE: i64 = 120;

/// Seconds beyond its lifetime after which a sandbox is removed: its agent ends it first, and an
/// engine may be slow to start one.
const OVERTIME: i64 = 10;

/// The result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Names of this tier's removed sandboxes.
    pub(crate) names: Vec<String>,
    /// The first error.
    pub(crate) failed: Option<Error>,
}

/// Removes our containers of any tier whose owner was killed or whose lifetime is over.
pub(crate) async fn sweep(tier: Tier, engine: &Engine) -> Swept {
    let mut swept = Swept::default();
    let containers = match engine.list(tier, &[labels::TIER.to_owned()]).await {
        Ok(containers) => containers,
        Err(error) => {
            swept.failed = Some(error);
            return swept;
        }
    };
    let now = now();
    for container in containers {
        let label = |name| container.labels.get(name);
        let standing = label(labels::OWNER)
            .and_then(|owner| Owner::decode(owner))
            .map_or(Standing::Unknown, |owner| owner.standing());
        let claimed = label(labels::TOKEN).is_some_and(|token| Claim::is_held(token));
        if !is_left(&container, standing, claimed, now) {
            continue;
        }
        match remove(tier, engine, &container.id).await {
            Ok(false) => {}
            Ok(true) if label(labels::TIER).is_some_and(|of| of == tier.name) => {
                swept.names.extend(label(labels::NAME).cloned());
            }
            Ok(true) => {}
            Err(error) => swept.failed = swept.failed.or(Some(error)),
        }
    }
    if let Err(error) = image::sweep(tier, engine, now).await {
        swept.failed = swept.failed.or(Some(error));
    }
    swept
}

/// Removes a container unless it inherited its labels; returns whether it did.
async fn remove(tier: Tier, engine: &Engine, container: &str) -> Result<bool> {
    if origin::is_foreign(tier, engine, container).await? {
        return Ok(false);
    }
    removal::remove(tier, &engine.client, container).await?;
    Ok(true)
}

/// Whether a container is a leftover.
fn is_left(container: &Listed, standing: Standing, claimed: bool, now: i64) -> bool {
    let label = |name| container.labels.get(name);
    // Without a creation time it counts as new.
    let age = container.created.map_or(0, |made| now.saturating_sub(made));
    let lifetime = label(labels::LIFETIME).and_then(|seconds| seconds.parse::<i64>().ok());
    if lifetime.is_some_and(|lifetime| age > lifetime.saturating_add(OVERTIME)) {
        return true;
    }
    let runs = container.runs;
    if runs && label(labels::DETACHED).is_some() {
        return false;
    }
    match standing {
        Standing::Gone => true,
        Standing::Ourselves => !claimed,
        Standing::Alive | Standing::Unknown => !runs && age > AGE,
    }
}

/// Seconds since 1970. A clock before 1970 makes nothing a leftover.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .unwrap_or(i64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 100_000;

    fn container(runs: bool, age: i64, labels: &[(&str, &str)]) -> Listed {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Listed {
            id: "0123".into(),
            created: Some(NOW - age),
            labels: labels.collect(),
            runs,
        }
    }

    #[test]
    fn what_was_never_started_goes_with_its_owner_or_with_time() {
        let left =
            |age, standing, claimed| is_left(&container(false, age, &[]), standing, claimed, NOW);
        assert!(left(0, Standing::Gone, false));
        assert!(left(0, Standing::Ourselves, false));
        assert!(!left(500, Standing::Ourselves, true));
        for standing in [Standing::Alive, Standing::Unknown] {
            assert!(left(500, standing, false));
            assert!(!left(60, standing, false));
        }
        // The local clock is behind the engine's.
        assert!(!left(-500, Standing::Unknown, false));
    }

    #[test]
    fn what_runs_goes_with_its_owner_alone() {
        let running = container(true, 50_000, &[]);
        let left = |standing, claimed| is_left(&running, standing, claimed, NOW);
        assert!(left(Standing::Gone, false));
        assert!(left(Standing::Ourselves, false));
        assert!(!left(Standing::Ourselves, true));
        assert!(!left(Standing::Alive, false));
        assert!(!left(Standing::Unknown, false));
    }

    #[test]
    fn what_is_detached_goes_at_the_end_of_its_time() {
        let labels = [(labels::DETACHED, "true"), (labels::LIFETIME, "60")];
        let left = |runs, age| {
            let container = container(runs, age, &labels);
            is_left(&container, Standing::Gone, false, NOW)
        };
        assert!(!left(true, 60));
        assert!(left(true, 71));
        assert!(left(false, 1));
    }
}
