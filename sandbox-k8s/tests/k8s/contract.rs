//! The tests that every backend passes, on pods.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, Config};
use sandbox_core::spi::Backend;
use sandbox_core::{ByteSize, Cpus, SandboxSpec};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig};
use sandbox_testing::contract::{Expectations, TestBackend};

/// A lifetime in which a pod can start and be used. It begins before the containers do.
pub const SHORT_LIFETIME: Duration = Duration::from_secs(10);

/// Tests that do not apply to pods: the beginnings of their names, each with the reason.
pub const NOT_APPLICABLE: &[(&str, &str)] = &[
    (
        "isolation::roots_and_workspace_are_mounted_as_specified",
        "a pod sees no folder of this host",
    ),
    (
        "lifetime::a_name_is_used_once",
        "a pod's name is its own, and a sandbox's is free until it is detached",
    ),
    (
        "hostile::an_agent_that_breaks_the_protocol_is_ended",
        LIMITS_COME_FIRST,
    ),
    (
        "hostile::a_stalled_agent_blocks_no_caller",
        LIMITS_COME_FIRST,
    ),
    (
        "hostile::code_of_root_cannot_fake_success",
        "root as the code's user is refused",
    ),
];

const LIMITS_COME_FIRST: &str = "limits are read through the agent before the first execution: an agent that does not answer is refused then";

/// Pods of the cluster of `KUBECONFIG`.
pub struct Pods;

/// A configuration that waits until other tests' pods leave room.
pub fn config() -> KubernetesConfig {
    KubernetesConfig::default()
        .default_image("sandbox-test/busybox:latest")
        .scheduling_timeout(Duration::from_secs(60))
}

/// Why tests that need an image cannot run; `None` where every node has it.
pub async fn lacks(image: &str) -> Option<String> {
    let nodes = Api::<Node>::all(cluster().await);
    let nodes = nodes.list(&ListParams::default()).await.expect("the nodes");
    let lacking = nodes.iter().find(|node| {
        let images = node
            .status
            .as_ref()
            .and_then(|status| status.images.as_ref());
        let mut names = images
            .into_iter()
            .flatten()
            .filter_map(|image| image.names.as_ref());
        !names.any(|names| names.iter().any(|name| name.ends_with(image)))
    });
    let name = lacking?.metadata.name.as_deref().unwrap_or_default();
    Some(format!("needs the image {image} on node {name}"))
}

async fn cluster() -> Client {
    let config = Config::infer().await.expect("a cluster's configuration");
    Client::try_from(config).expect("a client")
}

/// The names of a sandbox's pods. Tests name the sandbox as its container would be called on an
/// engine.
async fn pods_of(container: &str) -> (Api<Pod>, Vec<String>) {
    let sandbox = container.strip_prefix("sandbox-").expect("the prefix");
    let pods: Api<Pod> = Api::default_namespaced(cluster().await);
    let list = pods.list(&ListParams::default()).await;
    let is_of_sandbox = |pod: &Pod| {
        let annotations = pod.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get("sandbox.name"))
            .map(String::as_str)
            == Some(sandbox)
    };
    let list = list.expect("a list of pods").items.into_iter();
    let names = list
        .filter(is_of_sandbox)
        .filter_map(|pod| pod.metadata.name)
        .collect();
    (pods, names)
}

#[async_trait]
impl TestBackend for Pods {
    fn expectations(&self) -> Expectations {
        Expectations {
            agent_folder: "agent\n",
            bounds_empty_files: false,
            has_down_interfaces: true,
            // The client may be anywhere.
            has_stats: true,
            short_lifetime: SHORT_LIFETIME,
        }
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(KubernetesBackend::new(config()))
    }

    fn backend_with_agent(&self, program: &[u8]) -> Arc<dyn Backend> {
        Arc::new(KubernetesBackend::new(config().agent(program)))
    }

    /// Each pod has its own user on the node.
    fn is_sandbox_user(&self, user: &str) -> bool {
        user.parse::<u32>().is_ok_and(|user| user >= 0x1000_0000)
    }

    /// A small node has room for several: the cluster reserves what a pod may use.
    fn sized(&self, spec: SandboxSpec) -> SandboxSpec {
        spec.memory(ByteSize::mib(256)).cpus(Cpus::milli(100))
    }

    /// The script only handles the client's connections, so that the pod itself keeps running.
    fn agent_script(&self, script: &str) -> String {
        let steps = "case \"$1\" in serve) exec sleep 300;; esac";
        format!("#!/bin/sh\n{steps}\n{script}")
    }

    async fn exists(&self, container: &str) -> bool {
        !pods_of(container).await.1.is_empty()
    }

    async fn remove(&self, container: &str) {
        let (pods, names) = pods_of(container).await;
        assert_eq!(names.len(), 1, "{names:?}");
        let at_once = DeleteParams::default().grace_period(0);
        let removed = pods.delete(&names[0], &at_once).await;
        removed.expect("the pod is removed");
    }

    /// Waits ten seconds longer, which a busy API server may take.
    async fn wait_removed(&self, container: &str, timeout: Duration) {
        let timeout = timeout + Duration::from_secs(10);
        let start = Instant::now();
        while self.exists(container).await {
            assert!(
                start.elapsed() < timeout,
                "{container} still exists after {timeout:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn remove_agent(&self, program: &[u8]) {
        let name = format!("sandbox-agent-{}", &blake3::hash(program).to_hex()[..32]);
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster().await);
        let removed = maps.delete(&name, &DeleteParams::default()).await;
        removed.expect("the agent's ConfigMap");
    }
}
