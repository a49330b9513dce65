//! The cluster of `cargo xtask engines up k8s`, and a test's namespace on it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use sandbox_core::spi::unique_name;
use sandbox_core::{ByteSize, CapabilityPolicy, Cpus, SandboxClient, SandboxSpec};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig};
use serde_json::Value;

use crate::TestResult;
use crate::test_namespace::TestNamespace;

pub const IMAGE: &str = "sandbox-test/busybox:latest";

/// The longest wait for the cluster's controllers.
const CONTROLLER_TIMEOUT: Duration = Duration::from_secs(60);

/// The path of the administrator's kubeconfig.
pub fn kubeconfig() -> Option<PathBuf> {
    let path = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty())?;
    Some(path.into())
}

/// The command line of the cluster's API server. Its file is beside the kubeconfig.
pub fn api_server() -> Option<Value> {
    let path = kubeconfig()?.with_file_name("api-server.json");
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// Whether the cluster is not the one of `cargo xtask engines up k8s`.
pub fn is_foreign() -> bool {
    kubeconfig().is_some_and(|path| path.exists()) && api_server().is_none()
}

/// Why the tests cannot run; `None` if they can.
pub fn missing() -> Option<String> {
    let Some(path) = kubeconfig() else {
        return Some("KUBECONFIG is not set".to_owned());
    };
    if api_server().is_none() {
        return Some(format!(
            "the cluster of {} was not started by this version of `cargo xtask engines up k8s`",
            path.display()
        ));
    }
    let answers = runtime().block_on(async {
        let response = client_of(&path).await.apiserver_version().await.map(drop);
        response.err().map(|error| error.to_string())
    });
    answers.map(|error| format!("the cluster of {} does not answer: {error}", path.display()))
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

/// Runs a test for at most eight minutes. An agent waits two minutes for its owner.
pub fn run<F>(test: F) -> TestResult
where
    F: Future<Output = sandbox_core::Result<()>>,
{
    let bounded = async { tokio::time::timeout(Duration::from_secs(480), test).await };
    match runtime().block_on(bounded) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err("took longer than eight minutes".into()),
    }
}

/// A client of the cluster, without the backend.
pub async fn client_of(kubeconfig: &Path) -> Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).expect("a configuration");
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await;
    Client::try_from(config.expect("a context")).expect("a client")
}

impl TestNamespace {
    /// The configuration of a backend that uses this kubeconfig.
    pub fn config_with(&self, kubeconfig: &Path) -> KubernetesConfig {
        config(kubeconfig, &self.name)
    }

    /// A client that uses the cluster's own API server.
    pub fn sandboxes(&self) -> SandboxClient {
        sandboxes(self.config_with(&kubeconfig().expect("checked by missing()")))
    }

    /// The names and phases of the pods.
    pub async fn phases(&self) -> Vec<(String, String)> {
        let listed = self
            .pods()
            .list(&ListParams::default())
            .await
            .expect("pods");
        let described = listed.items.into_iter().map(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
            (pod.name_any(), phase.unwrap_or_default())
        });
        described.collect()
    }

    /// Waits until the phase of every pod satisfies the condition.
    pub async fn wait_for(&self, what: &str, bound: Duration, wanted: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let pods = self.phases().await;
            let left = pods.iter().filter(|(_, phase)| !wanted(phase));
            let left = left.collect::<Vec<_>>();
            if left.is_empty() {
                return;
            }
            assert!(begin.elapsed() < bound, "{what}: {left:?} after {bound:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The names of ConfigMaps and Secrets, without those that every namespace has.
    pub async fn objects(&self) -> Vec<String> {
        let maps: Api<ConfigMap> = self.api();
        let secrets: Api<Secret> = self.api();
        let maps = maps.list(&ListParams::default()).await.expect("ConfigMaps");
        let secrets = secrets.list(&ListParams::default()).await.expect("Secrets");
        let maps = maps.items.iter().map(ResourceExt::name_any);
        let secrets = secrets
            .items
            .iter()
            .filter(|secret| secret.type_.as_deref() != Some("kubernetes.io/service-account-token"))
            .map(ResourceExt::name_any);
        let mut names: Vec<_> = maps
            .filter(|name| name != "kube-root-ca.crt")
            .chain(secrets)
            .collect();
        names.sort();
        names
    }

    /// Removes the agents' ConfigMaps, so that the next client must create its own.
    pub async fn remove_agents(&self) {
        let maps: Api<ConfigMap> = self.api();
        for name in self.objects().await {
            let removed = maps.delete(&name, &DeleteParams::default()).await;
            removed.expect("removed");
        }
    }

    /// Waits until a later client's prune leaves at most the agent's ConfigMap.
    pub async fn wait_clean(&self, what: &str) -> sandbox_core::Result<()> {
        let begin = Instant::now();
        loop {
            self.sandboxes().prune().await?;
            let (pods, objects) = (self.phases().await, self.objects().await);
            let strange = objects
                .iter()
                .filter(|name| !name.starts_with("sandbox-agent-"))
                .collect::<Vec<_>>();
            if pods.is_empty() && strange.is_empty() && objects.len() <= 1 {
                return Ok(());
            }
            assert!(
                begin.elapsed() < CONTROLLER_TIMEOUT,
                "{what}: {pods:?}, {objects:?}"
            );
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

/// The configuration of a backend for a namespace. Waits for room while other tests fill the node.
pub fn config(kubeconfig: &Path, namespace: &str) -> KubernetesConfig {
    KubernetesConfig::default()
        .kubeconfig(kubeconfig)
        .namespace(namespace)
        .default_image(IMAGE)
        .scheduling_timeout(CONTROLLER_TIMEOUT)
}

pub fn sandboxes(config: KubernetesConfig) -> SandboxClient {
    let backend = Arc::new(KubernetesBackend::new(config));
    let mut policy = CapabilityPolicy::new();
    // Longer than an execution waits for an unreachable API server.
    policy.timeout = Some(Duration::from_secs(300));
    SandboxClient::with_backend(backend, policy).expect("a client")
}

/// A sandbox with small requests.
pub fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("fault"))
        .memory(ByteSize::mib(64))
        .cpus(Cpus::milli(50))
}
