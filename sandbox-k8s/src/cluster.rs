//! Finds the cluster and holds what is known about it.

use std::io::ErrorKind::NotFound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{ApiResource, DynamicObject};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config};
use sandbox_core::{Error, Result};

use crate::TIER;
use crate::config::KubernetesConfig;
use crate::connection::connect;
use crate::error::{ClusterOperation, cluster_error};
use crate::exec_probe::StartLatency;
use crate::failure::SEE_CLUSTER;
use crate::identity;
use crate::requests::RequestGate;
use crate::watch::PodWatch;

/// A cluster that accepts a connection and does not answer within this time is unavailable. It
/// answers in milliseconds, and in seconds on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How many clusters this process has found.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A cluster that answers.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    /// The client without the gate, from which the clients of sandboxes are made.
    ungated_client: Client,
    gate: Arc<RequestGate>,
    /// For another client after this one's runtime has ended. `None` for a client that the caller
    /// made.
    config: Option<Config>,
    /// That other client, once made.
    background_client: Arc<OnceLock<Client>>,
    /// The number of this cluster in this process.
    number: u64,
    pub namespace: String,
    pub version: ServerVersion,
    /// The label value that marks this client's pods.
    pub owner: Arc<str>,
    /// The shared watch of pods that this client waits for.
    pub watch: Arc<PodWatch>,
    /// How long pods took to start.
    pub latency: Arc<StartLatency>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("namespace", &self.namespace)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The API server's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerVersion {
    pub major: u32,
    pub minor: u32,
    /// The version as the server writes it.
    pub text: String,
}

impl ServerVersion {
    /// Vendors may append text to the numbers. An unreadable number counts as 0.
    fn new(major: &str, minor: &str, text: String) -> Self {
        let number = |text: &str| {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or_default()
        };
        Self {
            major: number(major),
            minor: number(minor),
            text,
        }
    }

    /// Whether every kubelet has at least this minor version: a kubelet may be three minor versions
    /// older than its server.
    pub(crate) fn kubelets_at_least(&self, minor: u32) -> bool {
        self.major > 1 || (self.major == 1 && self.minor >= minor + 3)
    }
}

impl Cluster {
    /// Connects to the configured cluster.
    ///
    /// # Errors
    ///
    /// `SandboxUnavailable` within 2 s if there is no cluster or it does not know the account, and
    /// after 10 s if it accepts a connection and does not answer.
    pub(crate) async fn find(config: &KubernetesConfig, gate: &Arc<RequestGate>) -> Result<Self> {
        let (ungated_client, found) = match &config.client {
            Some(client) => (client.clone(), None),
            None => {
                let found = read(config).await?;
                let client = connect(&found)
                    .map_err(|error| cluster_error(ClusterOperation::Version, error))?;
                (client, Some(found))
            }
        };
        let client = gate.client(ungated_client.clone());
        let namespace = match &config.namespace {
            Some(name) => name.clone(),
            None => client.default_namespace().to_owned(),
        };
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, client.apiserver_version()).await;
        let version = asked
            .map_err(|_| {
                Error::unavailable(
                    TIER,
                    format!("the API server does not answer within {ANSWER_TIMEOUT:?}"),
                    SEE_CLUSTER,
                )
            })?
            .map_err(|error| cluster_error(ClusterOperation::Version, error))?;
        let owner: Arc<str> = identity::client()?.into();
        let pods = Api::namespaced(client.clone(), &namespace);
        Ok(Self {
            watch: Arc::new(PodWatch::new(pods, &owner)),
            client,
            ungated_client,
            gate: Arc::clone(gate),
            owner,
            latency: Arc::default(),
            config: found,
            background_client: Arc::default(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            namespace,
            version: ServerVersion::new(&version.major, &version.minor, version.git_version),
        })
    }

    /// The same cluster, with the requests of one more sandbox counted separately.
    pub(crate) fn for_sandbox(&self) -> Self {
        Self {
            client: self.gate.sandbox_client(self.ungated_client.clone()),
            ..self.clone()
        }
    }

    /// The namespace's pods.
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The same, with all fields that the server writes.
    pub(crate) fn pods_as_written(&self) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<Pod>(&());
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }

    /// The cluster's nodes.
    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The namespace's ConfigMaps.
    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The namespace's NetworkPolicies.
    pub(crate) fn network_policies(&self) -> Api<NetworkPolicy> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Identifies this cluster within this process. A caller's own client counts as a cluster of
    /// its own.
    pub(crate) fn cache_key(&self) -> String {
        match &self.config {
            Some(config) => config.cluster_url.to_string(),
            None => format!("client {}", self.number),
        }
    }

    /// The namespace's Secrets.
    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The namespace's pods, for the runtime of background removals. A client that the caller made
    /// is used as it is: the caller keeps its runtime alive.
    pub(crate) fn background_pods(&self) -> Result<Api<Pod>, kube::Error> {
        let Some(config) = &self.config else {
            return Ok(self.pods());
        };
        let client = match self.background_client.get() {
            Some(client) => client,
            None => {
                let client = connect(config)?;
                self.background_client
                    .get_or_init(|| self.gate.client(client))
            }
        };
        Ok(Api::namespaced(client.clone(), &self.namespace))
    }
}

async fn read(config: &KubernetesConfig) -> Result<Config> {
    let fix = "set KUBECONFIG to the configuration of a cluster";
    let bad =
        |why: String| Error::unavailable(TIER, sandbox_core::spi::escape(&why).to_string(), fix);
    let options = KubeConfigOptions {
        context: config.context.clone(),
        ..KubeConfigOptions::default()
    };
    let found = match (&config.kubeconfig, &config.context) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path)
                .map_err(|error| bad(format!("{}: {error}", path.display())))?;
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(|error| bad(format!("{}: {error}", path.display())))
        }
        (None, Some(_)) => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| bad(error.to_string())),
        (None, None) => Config::infer().await.map_err(|error| {
            bad(format!(
                "no cluster is configured: {}",
                not_configured(&error)
            ))
        }),
    };
    let mut found = found?;
    found.connect_timeout = Some(ANSWER_TIMEOUT);
    // The gate retries, and counts retries.
    found.default_retry = false;
    Ok(found)
}

/// Why there is no configuration. Most hosts have no cluster, so the usual reason is short.
fn not_configured(error: &InferConfigError) -> String {
    match std::error::Error::source(error).and_then(|cause| cause.downcast_ref()) {
        Some(KubeconfigError::ReadConfig(cause, path)) if cause.kind() == NotFound => {
            format!("{} does not exist", path.display())
        }
        // The other half of the error speaks of pods, which seldom run this.
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::ErrorKind;

    #[test]
    fn vendor_suffixes_of_versions_are_ignored() {
        let version = ServerVersion::new("1", "29+", "v1.29.3-gke.1".into());
        assert_eq!((version.major, version.minor), (1, 29));
        assert!(version.kubelets_at_least(26) && !version.kubelets_at_least(27));
        assert!(!ServerVersion::new("", "x", String::new()).kubelets_at_least(0));
    }

    #[tokio::test]
    async fn missing_or_silent_cluster_is_unavailable() {
        let gate = Arc::new(RequestGate::new(1));
        let missing = KubernetesConfig::default().kubeconfig("/nonexistent/config");
        let error = Cluster::find(&missing, &gate).await.expect_err("no file");
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
        assert!(error.to_string().contains("/nonexistent/config"), "{error}");

        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("config");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("address").port();
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        );
        std::fs::write(&path, text).expect("write");
        let config = KubernetesConfig::default().kubeconfig(&path);
        // The server listens but does not answer; then it does not listen.
        for listens in [Some(listener), None] {
            let error = Cluster::find(&config, &gate).await.expect_err("no answer");
            assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
            let words = error.to_string();
            let silent = words.contains("does not answer within");
            assert_eq!(silent, listens.is_some(), "{words}");
        }
    }
}
