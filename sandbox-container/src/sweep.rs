//! Removes leftovers of killed owners, and sandboxes past their lifetime.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox_core::{Error, Result};
use sandbox_host::{Owner, OwnerStatus};

use crate::Tier;
use crate::claim::ContainerClaim;
use crate::engine::{EngineConnection, ListedContainer};
use crate::image;
use crate::label_origin;
use crate::labels;
use crate::removal;

/// Age in seconds after which a container of an unknown owner that does not run is a leftover:
/// owners start theirs within a second.
const UNSTARTED_AGE: i64 = 120;

/// Seconds since its creation, beyond its lifetime, after which any client removes a sandbox. Its
/// agent ends it first, then its own client ([`crate::isolator`]). The lifetime begins when the
/// agent starts, which an engine may delay.
const LIFETIME_GRACE: i64 = 10;

/// The result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct SweepResult {
    /// Names of this tier's removed sandboxes.
    pub(crate) names: Vec<String>,
    /// The first error.
    pub(crate) failed: Option<Error>,
}

/// Removes our containers of any tier whose owner was killed or whose lifetime is over.
pub(crate) async fn sweep(tier: Tier, engine: &EngineConnection) -> SweepResult {
    let mut result = SweepResult::default();
    let now = now();
    let leftovers = match leftovers(tier, engine, now).await {
        Ok(leftovers) => leftovers,
        Err(error) => {
            result.failed = Some(error);
            return result;
        }
    };
    for container in leftovers {
        let label = |name| container.labels.get(name);
        match remove(tier, engine, &container.id).await {
            Ok(false) => {}
            Ok(true) if label(labels::TIER).is_some_and(|of| of == tier.name) => {
                result.names.extend(label(labels::NAME).cloned());
            }
            Ok(true) => {}
            Err(error) => result.failed = result.failed.or(Some(error)),
        }
    }
    if let Err(error) = image::sweep(tier, engine, now).await {
        result.failed = result.failed.or(Some(error));
    }
    result
}

/// Our containers that are leftovers.
async fn leftovers(
    tier: Tier,
    engine: &EngineConnection,
    now: i64,
) -> Result<Vec<ListedContainer>> {
    let ours = [labels::TIER.to_owned()];
    let candidates = candidates(engine.list(tier, &ours).await?, now);
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let listed = engine.list(tier, &ours).await?;
    Ok(still_leftovers(&candidates, listed, now))
}

/// By id, the owner's status and whether this process claims the container.
type Candidates = HashMap<String, (OwnerStatus, bool)>;

/// The containers that are leftovers if they still have the listed state.
fn candidates(containers: Vec<ListedContainer>, now: i64) -> Candidates {
    let mut candidates = Candidates::new();
    for container in containers {
        let label = |name| container.labels.get(name);
        let owner = label(labels::OWNER)
            .and_then(|owner| Owner::from_label(owner))
            .map_or(OwnerStatus::Unknown, |owner| owner.status());
        let claimed = label(labels::TOKEN).is_some_and(|token| ContainerClaim::is_held(token));
        if is_leftover(&container, owner, claimed, now) {
            candidates.insert(container.id, (owner, claimed));
        }
    }
    candidates
}

/// The leftovers in a list that is newer than what `candidates` says of owners and claims.
///
/// A sandbox that was listed before its start and detached since has no claim. By its old state, it
/// would be one that never starts.
fn still_leftovers(
    candidates: &Candidates,
    mut containers: Vec<ListedContainer>,
    now: i64,
) -> Vec<ListedContainer> {
    containers.retain(|container| {
        let candidate = candidates.get(&container.id);
        candidate.is_some_and(|(owner, claimed)| is_leftover(container, *owner, *claimed, now))
    });
    containers
}

/// Removes a container unless it inherited its labels; returns whether it did.
async fn remove(tier: Tier, engine: &EngineConnection, container: &str) -> Result<bool> {
    if label_origin::has_inherited_labels(tier, engine, container).await? {
        return Ok(false);
    }
    removal::remove(tier, &engine.client, container).await?;
    Ok(true)
}

/// Whether a container is a leftover.
fn is_leftover(container: &ListedContainer, owner: OwnerStatus, claimed: bool, now: i64) -> bool {
    let label = |name| container.labels.get(name);
    // Without a creation time it counts as new.
    let age = container
        .created
        .map_or(0, |created| now.saturating_sub(created));
    let lifetime = label(labels::LIFETIME).and_then(|seconds| seconds.parse::<i64>().ok());
    if lifetime.is_some_and(|lifetime| age > lifetime.saturating_add(LIFETIME_GRACE)) {
        return true;
    }
    let runs = container.runs;
    if runs && label(labels::DETACHED).is_some() {
        return false;
    }
    match owner {
        OwnerStatus::Gone => true,
        OwnerStatus::ThisProcess => !claimed,
        OwnerStatus::Running | OwnerStatus::Unknown => !runs && age > UNSTARTED_AGE,
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

    fn container(runs: bool, age: i64, labels: &[(&str, &str)]) -> ListedContainer {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        ListedContainer {
            id: "0123".into(),
            created: Some(NOW - age),
            labels: labels.collect(),
            runs,
        }
    }

    #[test]
    fn container_that_starts_after_it_was_listed_is_no_leftover() {
        let owner = Owner::current().to_label();
        let labels = [(labels::OWNER, &*owner), (labels::DETACHED, "true")];
        let candidates = candidates(vec![container(false, 1, &labels)], NOW);
        for runs in [false, true] {
            let now_listed = vec![container(runs, 1, &labels)];
            let leftovers = still_leftovers(&candidates, now_listed, NOW);
            assert_eq!(leftovers.is_empty(), runs, "{leftovers:?}");
        }
    }

    #[test]
    fn unstarted_container_is_a_leftover_of_an_ended_owner_or_after_a_time() {
        let leftover =
            |age, owner, claimed| is_leftover(&container(false, age, &[]), owner, claimed, NOW);
        assert!(leftover(0, OwnerStatus::Gone, false));
        assert!(leftover(0, OwnerStatus::ThisProcess, false));
        assert!(!leftover(500, OwnerStatus::ThisProcess, true));
        for owner in [OwnerStatus::Running, OwnerStatus::Unknown] {
            assert!(leftover(500, owner, false));
            assert!(!leftover(60, owner, false));
        }
        // The local clock is behind the engine's.
        assert!(!leftover(-500, OwnerStatus::Unknown, false));
    }

    #[test]
    fn running_container_is_a_leftover_only_of_an_ended_owner() {
        let running = container(true, 50_000, &[]);
        let leftover = |owner, claimed| is_leftover(&running, owner, claimed, NOW);
        assert!(leftover(OwnerStatus::Gone, false));
        assert!(leftover(OwnerStatus::ThisProcess, false));
        assert!(!leftover(OwnerStatus::ThisProcess, true));
        assert!(!leftover(OwnerStatus::Running, false));
        assert!(!leftover(OwnerStatus::Unknown, false));
    }

    #[test]
    fn detached_container_is_a_leftover_after_its_lifetime() {
        let labels = [(labels::DETACHED, "true"), (labels::LIFETIME, "60")];
        let leftover = |runs, age| {
            let container = container(runs, age, &labels);
            is_leftover(&container, OwnerStatus::Gone, false, NOW)
        };
        assert!(!leftover(true, 60));
        assert!(leftover(true, 71));
        assert!(leftover(false, 1));
    }
}
