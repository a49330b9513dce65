//! Removes leftovers: our pods that have ended, and pods that no client waits for any more.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use sandbox_core::{Error, Result};

use crate::TIER;
use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::labels;
use crate::pod::{self, PodRef};

/// After this long a pod that does not run counts as abandoned, if it does not record its client's
/// timeout.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Added to the client's timeout, since the clocks of the cluster and of this machine may differ.
const CLOCK_MARGIN: Duration = Duration::from_secs(300);

/// Removes our pods that have ended or were abandoned. A pod whose owner was killed ends by itself,
/// together with its agent. Returns the sandboxes' names, sorted.
///
/// # Errors
///
/// Errors of the list request. Otherwise, after all removals were tried, one error that names each
/// pod that could not be removed, with the reason.
pub(crate) async fn sweep(cluster: &Cluster) -> Result<Vec<String>> {
    let pods = cluster.pods();
    let our_pods = ListParams::default().labels(&labels::selector());
    let listed = pods
        .list(&our_pods)
        .await
        .map_err(|error| cluster_error(ClusterOperation::ListPods, error))?;
    let now = Timestamp::now();
    let mut swept = SweepOutcome::default();
    for pod in listed.items.iter().filter(|pod| is_leftover(pod, now)) {
        if let Some(target) = PodRef::of(pod) {
            let name = labels::sandbox_name(pod).unwrap_or(&target.name);
            swept.add(name, pod::remove(&pods, &target).await);
        }
    }
    swept.result()
}

/// The outcome of a sweep.
#[derive(Debug, Default)]
struct SweepOutcome {
    removed: BTreeSet<String>,
    /// Names of sandboxes that could not be removed, each with its error.
    failures: Vec<(String, Error)>,
}

impl SweepOutcome {
    fn add(&mut self, name: &str, removed: Result<()>) {
        match removed {
            Ok(()) => drop(self.removed.insert(name.to_owned())),
            Err(error) => self.failures.push((name.to_owned(), error)),
        }
    }

    fn result(self) -> Result<Vec<String>> {
        let removed = self.removed.into_iter().collect::<Vec<_>>();
        let Some((_, first)) = self.failures.first() else {
            return Ok(removed);
        };
        let kind = first.kind();
        let failures = self.failures.iter().map(|(name, error)| {
            let why = error.context();
            sandbox_core::spi::escape(&format!("{name}: {why}")).to_string()
        });
        let mut context = format!("not removed: {}", failures.collect::<Vec<_>>().join("; "));
        if !removed.is_empty() {
            context = format!("{context} (removed: {})", removed.join(", "));
        }
        Err(Error::new(kind, "remove leftovers of sandboxes", context)
            .on(TIER)
            .with_fix("check that this account may remove pods, and look at `kubectl describe pod`; the next `sandbox prune` tries again"))
    }
}

/// Whether a pod has ended or will never run.
fn is_leftover(pod: &Pod, now: Timestamp) -> bool {
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
            let waited = waited.map_or(ABANDONED, |patience| patience.saturating_add(CLOCK_MARGIN));
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
    fn error_names_failed_and_removed_sandboxes() {
        let refused = |why: &str| Err(Error::new(ErrorKind::SetupFailed, "remove pod", why));
        let mut swept = SweepOutcome::default();
        swept.add("one", Ok(()));
        assert_eq!(swept.result().expect("all"), ["one"]);
        let mut swept = SweepOutcome::default();
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
    fn only_ended_or_abandoned_pods_are_leftovers() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a moment");
        let leftover = |phase: &str, made: &str| {
            let pod = json!({
                "metadata": {"creationTimestamp": made},
                "status": {"phase": phase},
            });
            is_leftover(&serde_json::from_value(pod).expect("a pod"), now)
        };
        let (early, late) = ("2026-01-01T10:00:00Z", "2026-01-01T11:59:00Z");
        assert!(leftover("Succeeded", late) && leftover("Failed", late));
        assert!(!leftover("Running", early));
        assert!(leftover("Pending", early) && !leftover("Pending", late));
        // If the clock is behind, no pod is old.
        assert!(!leftover("Pending", "2026-01-01T13:00:00Z"));
        assert!(!is_leftover(&Pod::default(), now));
        // A pod that records its client's timeout.
        let leftover = |minutes: u64, made: &str| {
            let pod = json!({
                "metadata": {"creationTimestamp": made},
                "status": {"phase": "Pending"},
            });
            let mut pod = serde_json::from_value(pod).expect("a pod");
            labels::add_patience(&mut pod, Duration::from_secs(60 * minutes));
            is_leftover(&pod, now)
        };
        let made = "2026-01-01T11:51:00Z";
        assert!(leftover(3, made) && !leftover(5, made));
        assert!(!leftover(u64::MAX / 60, early));
    }
}
