//! Removes leftovers: our pods that have ended, and pods that no client waits for any more.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use sandbox_core::{Error, Result};

use crate::TIER;
use crate::cluster::Cluster;
use crate::error::{Operation, cluster_error};
use crate::labels;
use crate::pod::{self, Target};

/// After this long a pod that does not run counts as abandoned, if it does not record its client's
/// timeout.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Added to the client's timeout, since the clocks of the cluster and of this machine may differ.
const MARGIN: Duration = Duration::from_secs(300);

/// Removes our pods that have ended or were abandoned. A pod whose owner was killed ends by itself,
/// together with its agent. Returns the sandboxes' names, sorted.
///
/// # Errors
///
/// Errors of the list request. Otherwise, after all removals were tried, one error that names each
/// pod that could not be removed, with the reason.
pub(crate) async fn sweep(cluster: &Cluster) -> Result<Vec<String>> {
    let pods = cluster.pods();
    let ours = ListParams::default().labels(&labels::selector());
    let found = pods
        .list(&ours)
        .await
        .map_err(|error| cluster_error(Operation::ListPods, error))?;
    let now = Timestamp::now();
    let mut swept = Swept::default();
    for found in found.items.iter().filter(|found| is_dead(found, now)) {
        if let Some(target) = Target::of(found) {
            let name = labels::sandbox_name(found).unwrap_or(&target.name);
            swept.add(name, pod::remove(&pods, &target).await);
        }
    }
    swept.result()
}

/// The outcome of a sweep.
#[derive(Debug, Default)]
struct Swept {
    removed: BTreeSet<String>,
    /// Names of sandboxes that could not be removed, each with its error.
    left: Vec<(String, Error)>,
}

impl Swept {
    fn add(&mut self, name: &str, removed: Result<()>) {
        match removed {
            Ok(()) => drop(self.removed.insert(name.to_owned())),
            Err(error) => self.left.push((name.to_owned(), error)),
        }
    }

    fn result(self) -> Result<Vec<String>> {
        let removed = self.removed.into_iter().collect::<Vec<_>>();
        let Some((_, first)) = self.left.first() else {
            return Ok(removed);
        };
        let kind = first.kind();
        let left = self.left.iter().map(|(name, error)| {
            let why = error.context();
            sandbox_core::escape(&format!("{name}: {why}")).to_string()
        });
        let mut context = format!("not removed: {}", left.collect::<Vec<_>>().join("; "));
        if !removed.is_empty() {
            context = format!("{context} (removed: {})", removed.join(", "));
        }
        Err(Error::new(kind, "remove what is left of sandboxes", context)
            .on(TIER)
            .with_fix("see that this account may remove pods, and what `kubectl describe pod` says of them; the next `sandbox prune` tries again"))
    }
}

/// Whether a pod has ended or will never run.
fn is_dead(pod: &Pod, now: Timestamp) -> bool {
    match pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
    {
        Some("Succeeded" | "Failed") => true,
        Some("Running") => false,
        // The pod is starting, or its node does not answer.
        _ => {
            let waited = labels::patience(pod);
            let waited = waited.map_or(FORGOTTEN, |patience| patience.saturating_add(MARGIN));
            let made = pod.metadata.creation_timestamp.as_ref();
            made.is_some_and(|made| {
                let age = now.duration_since(made.0);
                Duration::try_from(age).is_ok_and(|age| age > waited)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::ErrorKind;
    use serde_json::json;

    #[test]
    fn each_failure_is_told_with_what_was_removed() {
        let refused = |why: &str| Err(Error::new(ErrorKind::SetupFailed, "remove pod", why));
        let mut swept = Swept::default();
        swept.add("one", Ok(()));
        assert_eq!(swept.result().expect("all"), ["one"]);
        let mut swept = Swept::default();
        swept.add("a", refused("forbidden"));
        swept.add("b", Ok(()));
        swept.add("c", refused("a webhook says no"));
        let error = swept.result().expect_err("two are left");
        assert_eq!(error.kind(), ErrorKind::SetupFailed);
        assert_eq!(
            error.context(),
            "not removed: a: forbidden; c: a webhook says no (removed: b)"
        );
    }

    #[test]
    fn only_what_has_ended_or_is_forgotten_is_dead() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a moment");
        let dead = |phase: &str, made: &str| {
            let pod = json!({
                "metadata": {"creationTimestamp": made},
                "status": {"phase": phase},
            });
            is_dead(&serde_json::from_value(pod).expect("a pod"), now)
        };
        let (early, late) = ("2026-01-01T10:00:00Z", "2026-01-01T11:59:00Z");
        assert!(dead("Succeeded", late) && dead("Failed", late));
        assert!(!dead("Running", early));
        assert!(dead("Pending", early) && !dead("Pending", late));
        // If the clock is behind, no pod is old.
        assert!(!dead("Pending", "2026-01-01T13:00:00Z"));
        assert!(!is_dead(&Pod::default(), now));
        // A pod that records its client's timeout.
        let dead = |minutes: u64, made: &str| {
            let pod = json!({
                "metadata": {"creationTimestamp": made},
                "status": {"phase": "Pending"},
            });
            let mut pod = serde_json::from_value(pod).expect("a pod");
            labels::add_patience(&mut pod, Duration::from_secs(60 * minutes));
            is_dead(&pod, now)
        };
        let made = "2026-01-01T11:51:00Z";
        assert!(dead(3, made) && !dead(5, made));
        assert!(!dead(u64::MAX / 60, early));
    }
}
