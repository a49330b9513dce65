//! Many sandboxes in a namespace, and the number of pods for which its nodes have room.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::Api;
use kube::api::ListParams;
use sandbox_core::{ByteSize, CapabilityPolicy, Cpus, SandboxClient, SandboxSpec};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig};
use serde_json::json;

use crate::TestResult;
use crate::cluster::run;
use crate::test_namespace::{TestNamespace, wait_until};

/// Runs a test in its own namespace, which is removed afterwards.
pub fn in_namespace<F, T>(test: T) -> TestResult
where
    T: FnOnce(Arc<TestNamespace>) -> F,
    F: Future<Output = TestResult>,
{
    run(async { test(Arc::new(TestNamespace::new().await)).await })
}

impl TestNamespace {
    /// A configuration with time for many pods to be scheduled and started.
    pub fn patient_config(&self) -> KubernetesConfig {
        self.config()
            .start_timeout(Duration::from_secs(240))
            .scheduling_timeout(Duration::from_secs(240))
    }

    /// A backend, and a client of it.
    pub fn backend_and_client(
        &self,
        config: KubernetesConfig,
    ) -> (Arc<KubernetesBackend>, SandboxClient) {
        let backend = Arc::new(KubernetesBackend::new(config));
        let client = SandboxClient::with_backend(backend.clone(), CapabilityPolicy::new());
        (backend, client.expect("a client"))
    }

    /// The names and UIDs of the pods.
    pub async fn listed(&self) -> Vec<(String, String)> {
        let found = self.pods().list(&ListParams::default()).await;
        let found = found.expect("a list").items.into_iter();
        found
            .map(|pod| {
                let metadata = pod.metadata;
                (
                    metadata.name.unwrap_or_default(),
                    metadata.uid.unwrap_or_default(),
                )
            })
            .collect()
    }

    /// The number of further pods for which the nodes have room.
    pub async fn room(&self) -> usize {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await.expect("nodes");
        let most = nodes.items.iter().map(|node| {
            let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
            allocatable.get("pods")?.0.parse::<usize>().ok()
        });
        let most: usize = most.map(Option::unwrap_or_default).sum();
        let pods: Api<Pod> = Api::all(self.client.clone());
        let used = pods.list(&ListParams::default()).await.expect("pods");
        most.saturating_sub(used.items.len())
    }

    /// Lets the namespace have this many pods.
    pub async fn limit_pods(&self, count: usize) {
        let hard = json!({"pods": count.to_string()});
        self.make::<ResourceQuota>(json!({"metadata": {"name": "few"}, "spec": {"hard": hard}}))
            .await;
        let quotas: Api<ResourceQuota> = self.api();
        // Its controller enables it asynchronously.
        wait_until("the quota to count", async || {
            let quota = quotas.get("few").await.expect("the quota");
            quota.status.is_some_and(|status| status.used.is_some())
        })
        .await;
    }
}

/// A sandbox with small requests: a small node has room for a hundred.
pub fn tiny(name: &str) -> SandboxSpec {
    SandboxSpec::new(name)
        .image("sandbox-test/busybox:latest")
        .memory(ByteSize::mib(24))
        .cpus(Cpus::milli(10))
}
