//! The cluster of `cargo xtask engines up k8s`, and a namespace of a test's own on it.

use std::future::Future;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use sandbox_core::{ByteSize, CapabilityPolicy, Cpus, SandboxClient, SandboxSpec, unique_name};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig};
use serde_json::Value;

use crate::Done;
use crate::ground::Ground;

pub const IMAGE: &str = "sandbox-test/busybox:latest";

/// How long the cluster may take for what it does soon.
const PATIENCE: Duration = Duration::from_secs(60);

/// The administrator's configuration.
pub fn kubeconfig() -> Option<PathBuf> {
    let path = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty())?;
    Some(path.into())
}

/// How the cluster's API server is started, which lies beside the configuration.
pub fn api_server() -> Option<Value> {
    let path = kubeconfig()?.with_file_name("api-server.json");
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// Whether there is a cluster that is a user's own.
pub fn is_foreign() -> bool {
    kubeconfig().is_some_and(|path| path.exists()) && api_server().is_none()
}

/// Why nothing can be tested here.
pub fn missing() -> Option<String> {
    let Some(path) = kubeconfig() else {
        return Some("KUBECONFIG is not set".to_owned());
    };
    if api_server().is_none() {
        return Some(format!(
            "the cluster of {} is not of `cargo xtask engines up k8s`, or of an older one",
            path.display()
        ));
    }
    let answers = runtime().block_on(async {
        let asked = client_of(&path).await.apiserver_version().await.map(drop);
        asked.err().map(|error| error.to_string())
    });
    answers.map(|error| format!("the cluster of {} does not answer: {error}", path.display()))
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

/// Runs a test for at most eight minutes: an agent that nobody comes back to stays for two.
pub fn run<F>(test: F) -> Done
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

/// A client of the cluster itself, to look at what the backend has made.
pub async fn client_of(kubeconfig: &Path) -> Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).expect("a configuration");
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await;
    Client::try_from(config.expect("a context")).expect("a client")
}

/// A namespace of a test's own, with what this module knows of it.
pub struct Space(Ground);

impl Deref for Space {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.0
    }
}

impl Space {
    /// Makes it, and waits until pods can be made in it.
    pub async fn make() -> Self {
        Self(Ground::new().await)
    }

    /// A backend's settings, by way of this configuration.
    pub fn config(&self, kubeconfig: &Path) -> KubernetesConfig {
        config(kubeconfig, &self.name)
    }

    /// A client that goes the usual way.
    pub fn sandboxes(&self) -> SandboxClient {
        sandboxes(self.config(&kubeconfig().expect("looked at before")))
    }

    /// The pods: their names and phases.
    pub async fn pods(&self) -> Vec<(String, String)> {
        let listed = self
            .0
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

    /// Waits until every pod satisfies this.
    pub async fn wait_for(&self, what: &str, bound: Duration, wanted: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let pods = self.pods().await;
            let left = pods.iter().filter(|(_, phase)| !wanted(phase));
            let left = left.collect::<Vec<_>>();
            if left.is_empty() {
                return;
            }
            assert!(begin.elapsed() < bound, "{what}: {left:?} after {bound:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What lies around beside pods and what every namespace has: the names of ConfigMaps and Secrets.
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

    /// Removes the agents' ConfigMaps, so that the next client has to make its own.
    pub async fn forget_agents(&self) {
        let maps: Api<ConfigMap> = self.api();
        for name in self.objects().await {
            let removed = maps.delete(&name, &DeleteParams::default()).await;
            removed.expect("a ConfigMap that is there");
        }
    }

    /// Once a later client has pruned, there is nothing but the agent's ConfigMap.
    pub async fn is_clean(&self, what: &str) -> sandbox_core::Result<()> {
        let begin = Instant::now();
        loop {
            self.sandboxes().prune().await?;
            let (pods, objects) = (self.pods().await, self.objects().await);
            let strange = objects
                .iter()
                .filter(|name| !name.starts_with("sandbox-agent-"))
                .collect::<Vec<_>>();
            if pods.is_empty() && strange.is_empty() && objects.len() <= 1 {
                return Ok(());
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: {pods:?}, {objects:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

/// A backend's settings for a namespace. Others may need room on the node at the same time.
pub fn config(kubeconfig: &Path, namespace: &str) -> KubernetesConfig {
    KubernetesConfig::default()
        .kubeconfig(kubeconfig)
        .namespace(namespace)
        .default_image(IMAGE)
        .scheduling_timeout(PATIENCE)
}

pub fn sandboxes(config: KubernetesConfig) -> SandboxClient {
    let backend = Arc::new(KubernetesBackend::new(config));
    let mut policy = CapabilityPolicy::new();
    // Beyond what an execution waits for a server.
    policy.timeout = Some(Duration::from_secs(300));
    SandboxClient::with_backend(backend, policy).expect("a client")
}

/// A sandbox that takes little of the node.
pub fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("fault"))
        .memory(ByteSize::mib(64))
        .cpus(Cpus::milli(50))
}
