//! A namespace of a test's own, and what the cluster says of it.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use sandbox_core::{CapabilityPolicy, SandboxClient};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig};
use serde_json::Value;
use tokio::time::Instant;

/// How long the cluster may take to do what it does in the background, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The namespace. Removed in the background when it is dropped, whatever a test has come to.
pub struct Ground {
    pub name: String,
    pub client: Client,
}

impl Ground {
    /// Makes one, and waits until pods can be made in it.
    pub async fn new() -> Self {
        let client = Client::try_default().await.expect("a client");
        let name = sandbox_core::unique_name("sandbox-test");
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let all: Api<Namespace> = Api::all(client.clone());
        let made = all.create(&PostParams::default(), &namespace).await;
        made.expect("a namespace");
        let this = Self { name, client };
        // Without its default account no pod is admitted.
        let accounts: Api<ServiceAccount> = this.api();
        until("the namespace has an account", async || {
            accounts.get_opt("default").await.expect("asked").is_some()
        })
        .await;
        this
    }

    /// What a backend has to be told to work here.
    pub fn config(&self) -> KubernetesConfig {
        KubernetesConfig::default().namespace(&*self.name)
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    /// Makes an object of the namespace.
    pub async fn make<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let object = serde_json::from_value(object).expect("an object");
        let made = self
            .api::<K>()
            .create(&PostParams::default(), &object)
            .await;
        made.expect("made")
    }

    /// Makes this pod, and waits until it has begun to run.
    pub async fn start(&self, pod: &Pod) -> Pod {
        let begin = Instant::now();
        let made = loop {
            match self.pods().create(&PostParams::default(), pod).await {
                Ok(made) => break made,
                // The namespace is new: the token that such pods get comes a moment after its account.
                Err(kube::Error::Api(status)) if status.message.contains("No API token") => {
                    assert!(begin.elapsed() < PATIENCE, "{status:?}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        let name = made.metadata.name.expect("a name");
        loop {
            let found = self.pods().get(&name).await.expect("a pod");
            let status = found.status.as_ref();
            if status
                .and_then(|status| status.phase.as_deref())
                .is_some_and(|phase| phase != "Pending")
            {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "{name} does not run: {found:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The names of the pods.
    pub async fn names(&self) -> Vec<String> {
        let found = self.pods().list(&ListParams::default()).await;
        let pods = found.expect("a list").items;
        pods.into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect()
    }

    /// Waits until there is no pod.
    pub async fn empty(&self) {
        until("the namespace has no pod", async || {
            self.names().await.is_empty()
        })
        .await;
    }

    /// The address of the only node, as pods reach it.
    pub async fn node(&self) -> IpAddr {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        let found = nodes.list(&ListParams::default()).await.expect("nodes");
        let addresses = found.items.into_iter().filter_map(|node| node.status);
        let mut internal = addresses
            .flat_map(|status| status.addresses.unwrap_or_default())
            .filter(|address| address.type_ == "InternalIP");
        let address = internal.next().expect("an address").address;
        address.parse().expect("an address")
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let name = self.name.clone();
        // A runtime of its own: that of the test may be ending.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let client = Client::try_default().await.expect("a client");
                let all: Api<Namespace> = Api::all(client);
                let removed = all.delete(&name, &DeleteParams::default()).await;
                removed.map(drop).expect("removed");
            });
        });
        if removal.join().is_err() {
            eprintln!("the namespace {} is left", self.name);
        }
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < PATIENCE, "not: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A client of this configuration.
pub fn client(config: KubernetesConfig, policy: CapabilityPolicy) -> SandboxClient {
    let backend = Arc::new(KubernetesBackend::new(config));
    SandboxClient::with_backend(backend, policy).expect("a client")
}

/// Somebody on the node who takes connections, as long as this lives.
pub struct Outsider {
    pub address: SocketAddr,
    _task: tokio::task::JoinHandle<()>,
}

impl Outsider {
    pub async fn new(node: IpAddr) -> Self {
        let listener = tokio::net::TcpListener::bind((node, 0)).await;
        let listener = listener.expect("a port of the node's: the tests run on it");
        let address = listener.local_addr().expect("an address");
        let _task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                drop(connection);
            }
        });
        Self { address, _task }
    }

    /// A script for inside a sandbox: says "open" where this takes a connection, and "tried" at its end.
    pub fn dial(&self) -> String {
        let (address, port) = (self.address.ip(), self.address.port());
        format!("nc -w 3 {address} {port} </dev/null && echo open; echo tried")
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self._task.abort();
    }
}
