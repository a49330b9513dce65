//! Findings for `sandbox doctor`, and the key of the matrix profile.

use kube::api::ListParams;
use sandbox_core::Error;
use sandbox_core::spi::Finding;

use crate::TIER;
use crate::cluster::Cluster;
use crate::config::KubernetesConfig;

/// The finding for a missing cluster.
pub(crate) fn missing(error: &Error) -> Finding {
    Finding {
        name: "cluster".into(),
        present: false,
        detail: error.context().to_owned(),
        fix: error.fix().unwrap_or_default().to_owned(),
    }
}

/// The findings for a cluster that answers.
pub(crate) fn findings(cluster: &Cluster, config: &KubernetesConfig) -> Vec<Finding> {
    let finding = |name: &str, detail: String| Finding {
        name: name.to_owned(),
        present: true,
        detail,
        fix: String::new(),
    };
    vec![
        finding("cluster", cluster.version.text.clone()),
        finding("namespace", cluster.namespace.clone()),
        finding("profile", config.profile.as_str().to_owned()),
    ]
}

/// The annotation of nodes with a modified kubelet, set by this project's test clusters.
const KUBELET: &str = "sandbox.test/kubelet";

/// Properties of the cluster that change enforcement, as the key of the matrix profile.
pub(crate) async fn profile(cluster: &Cluster, config: &KubernetesConfig) -> Vec<(String, String)> {
    let version = &cluster.version;
    let pairs = [
        ("backend", TIER.to_owned()),
        ("server", format!("{}.{}", version.major, version.minor)),
        ("profile", config.profile.as_str().to_owned()),
    ];
    // Measuring accounts may list nodes; for all others the key stays without the kubelet.
    let nodes = cluster.nodes().list(&ListParams::default()).await;
    let nodes = nodes.map(|list| list.items).unwrap_or_default();
    let changed = nodes.into_iter().find_map(|node| {
        let mut annotations = node.metadata.annotations?;
        annotations.remove(KUBELET)
    });
    pairs
        .into_iter()
        .chain(changed.map(|changed| ("kubelet", changed)))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
