//! The NetworkPolicy that denies our pods all traffic.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use sandbox_core::{Error, ErrorKind, Result};

use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::{TIER, creation, labels};

/// The policy's name.
const NAME: &str = "sandbox-deny-all";

/// Creates the policy if it is missing. It stays, since it selects only our pods.
///
/// # Errors
///
/// Errors of the cluster; `SetupFailed` if the existing policy differs.
pub(super) async fn provide(cluster: &Cluster) -> Result<()> {
    let policies = cluster.network_policies();
    let get = || async {
        let existing = policies.get_opt(NAME).await;
        existing.map_err(|error| cluster_error(ClusterOperation::GetNetworkPolicy, error))
    };
    let expected = policy();
    let existing = match get().await? {
        Some(existing) => existing,
        None => match creation::create(&policies, &expected).await {
            Ok(made) => made,
            // Another client was faster.
            Err(kube::Error::Api(status)) if creation::is_taken(&status) => {
                get().await?.unwrap_or_default()
            }
            Err(error) => return Err(cluster_error(ClusterOperation::CreateNetworkPolicy, error)),
        },
    };
    if denies_as_much(&existing, &expected) {
        return Ok(());
    }
    let context =
        format!("the NetworkPolicy {NAME} differs from the one that this program creates");
    let fix =
        format!("find out what changed it, and remove it (`kubectl delete networkpolicy {NAME}`)");
    Err(
        Error::new(ErrorKind::SetupFailed, "deny the network", context)
            .on(TIER)
            .with_fix(fix),
    )
}

/// A policy without rules in either direction denies all traffic.
fn policy() -> NetworkPolicy {
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some(labels::ours().into()),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(BTreeMap::from([(
                    labels::NETWORK.to_owned(),
                    labels::DENIED.to_owned(),
                )])),
                match_expressions: None,
            }),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: None,
            egress: None,
        }),
    }
}

fn denies_as_much(existing: &NetworkPolicy, expected: &NetworkPolicy) -> bool {
    let (Some(existing), Some(expected)) = (&existing.spec, &expected.spec) else {
        return false;
    };
    let has_rules = existing.ingress.iter().flatten().next().is_some()
        || existing.egress.iter().flatten().next().is_some();
    !has_rules
        && existing.pod_selector == expected.pod_selector
        && existing.policy_types == expected.policy_types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_policy_without_rules_for_same_pods_is_accepted() {
        let expected = policy();
        assert!(denies_as_much(&expected, &expected));
        let changed = |change: fn(&mut NetworkPolicySpec)| {
            let mut changed = policy();
            changed.spec.as_mut().map(change);
            changed
        };
        for changed in [
            changed(|spec| spec.egress = Some(vec![Default::default()])),
            changed(|spec| spec.ingress = Some(vec![Default::default()])),
            changed(|spec| spec.pod_selector = Some(LabelSelector::default())),
            changed(|spec| spec.policy_types = Some(vec!["Ingress".to_owned()])),
            NetworkPolicy::default(),
        ] {
            assert!(!denies_as_much(&changed, &expected), "{changed:?}");
        }
        let mut empty = policy();
        empty.spec.get_or_insert_default().egress = Some(Vec::new());
        assert!(denies_as_much(&empty, &expected));
    }
}
