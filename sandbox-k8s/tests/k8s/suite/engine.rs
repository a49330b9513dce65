//! The cluster, in the place of an engine: what it has of our sandboxes.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DeleteParams;
use kube::{Api, Client, Config};

pub use super::sandboxes::*;

async fn cluster() -> Client {
    let config = Config::infer().await.expect("a cluster's configuration");
    Client::try_from(config).expect("a client")
}

/// The namespace's ConfigMaps.
pub async fn config_maps() -> Api<ConfigMap> {
    Api::default_namespaced(cluster().await)
}

/// The names of the pods of a sandbox, which the tests call as engines do.
async fn pods(container: &str) -> (Api<Pod>, Vec<String>) {
    let sandbox = container.strip_prefix("sandbox-").expect("one of ours");
    let pods: Api<Pod> = Api::default_namespaced(cluster().await);
    let found = pods.list(&kube::api::ListParams::default()).await;
    let found = found.expect("a list of pods").items.into_iter();
    let is_its = |pod: &Pod| {
        let annotations = pod.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get("sandbox.name"))
            .map(String::as_str)
            == Some(sandbox)
    };
    let names = found.filter(is_its).filter_map(|pod| pod.metadata.name);
    let names = names.collect();
    (pods, names)
}

/// Whether the cluster has a pod of this sandbox, in any state.
pub async fn exists(container: &str) -> bool {
    !pods(container).await.1.is_empty()
}

/// Removes the pod, as somebody else does.
pub async fn remove(container: &str) {
    let (pods, names) = pods(container).await;
    assert_eq!(names.len(), 1, "{names:?}");
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(&names[0], &at_once)
        .await
        .expect("removed by somebody else");
}

/// Waits until the cluster has no such pod, for at most `bound` and what a busy API server takes.
pub async fn wait_gone(container: &str, bound: Duration) {
    let bound = bound + Duration::from_secs(10);
    let start = Instant::now();
    while exists(container).await {
        assert!(
            start.elapsed() < bound,
            "{container} is still there after {bound:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
