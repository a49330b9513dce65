//! Removing what others left: pods of ours that have ended, and those that nobody waits for any more.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use sandbox_core::Result;

use crate::cluster::Cluster;
use crate::error::{Operation, cluster_error};
use crate::{labels, pod};

/// A pod that has not begun to run after this long has nobody who waits: its client gives up before.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// What was removed, and what went wrong.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// The pods' names, sorted.
    pub removed: Vec<String>,
}

/// Removes what is ours and has ended. A pod whose owner was killed ends by itself, with its agent.
///
/// # Errors
///
/// What the cluster refuses; what comes behind is left for the next time.
pub(crate) async fn sweep(cluster: &Cluster) -> Result<Swept> {
    let pods = cluster.pods();
    let ours = ListParams::default().labels(&labels::selector());
    let found = pods
        .list(&ours)
        .await
        .map_err(|error| cluster_error(Operation::ListPods, error))?;
    let now = Timestamp::now();
    let mut swept = Swept::default();
    for found in found.items.iter().filter(|found| is_dead(found, now)) {
        if let Some(name) = &found.metadata.name {
            pod::remove(&pods, name).await?;
            swept.removed.push(name.clone());
        }
    }
    swept.removed.sort();
    Ok(swept)
}

/// Whether nothing of a pod runs, or ever will.
fn is_dead(pod: &Pod, now: Timestamp) -> bool {
    match pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
    {
        Some("Succeeded" | "Failed") => true,
        Some("Running") => false,
        // On its way, or the node does not answer.
        _ => pod
            .metadata
            .creation_timestamp
            .as_ref()
            .is_some_and(|made| {
                let age = now.duration_since(made.0);
                Duration::try_from(age).is_ok_and(|age| age > FORGOTTEN)
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        // A clock that is behind makes nothing old.
        assert!(!dead("Pending", "2026-01-01T13:00:00Z"));
        assert!(!is_dead(&Pod::default(), now));
    }
}
