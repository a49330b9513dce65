//! The NetworkPolicy that denies our pods all traffic.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use sandbox_core::{Error, ErrorKind, Result};

use crate::cluster::Cluster;
use crate::error::{Operation, cluster_error};
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
        let found = policies.get_opt(NAME).await;
        found.map_err(|error| cluster_error(Operation::GetNetworkPolicy, error))
    };
    let ours = policy();
    let found = match get().await? {
        Some(found) => found,
        None => match creation::create(&policies, &ours).await {
            Ok(made) => made,
            // Another client was faster.
            Err(kube::Error::Api(status)) if creation::is_taken(&status) => {
                get().await?.unwrap_or_default()
            }
            Err(error) => return Err(cluster_error(Operation::CreateNetworkPolicy, error)),
        },
    };
    if denies_as_much(&found, &ours) {
        return Ok(());
    }
    let context = format!("the NetworkPolicy {NAME} is not what this program makes");
    let fix = format!(
        "find out who has changed it, and remove it (`kubectl delete networkpolicy {NAME}`)"
    );
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

fn denies_as_much(found: &NetworkPolicy, ours: &NetworkPolicy) -> bool {
    let (Some(found), Some(ours)) = (&found.spec, &ours.spec) else {
        return false;
    };
    let has_rules = found.ingress.iter().flatten().next().is_some()
        || found.egress.iter().flatten().next().is_some();
    !has_rules && found.pod_selector == ours.pod_selector && found.policy_types == ours.policy_types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_without_rules_for_the_same_pods_is_ours() {
        let ours = policy();
        assert!(denies_as_much(&ours, &ours));
        let changed = |change: fn(&mut NetworkPolicySpec)| {
            let mut other = policy();
            other.spec.as_mut().map(change);
            other
        };
        for other in [
            changed(|spec| spec.egress = Some(vec![Default::default()])),
            changed(|spec| spec.ingress = Some(vec![Default::default()])),
            changed(|spec| spec.pod_selector = Some(LabelSelector::default())),
            changed(|spec| spec.policy_types = Some(vec!["Ingress".to_owned()])),
            NetworkPolicy::default(),
        ] {
            assert!(!denies_as_much(&other, &ours), "{other:?}");
        }
        let mut empty = policy();
        empty.spec.get_or_insert_default().egress = Some(Vec::new());
        assert!(denies_as_much(&empty, &ours));
    }
}
