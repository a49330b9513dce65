//! A namespace that belongs to one test.

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
use sandbox_testing::wait::wait_until_async;
use serde_json::Value;
use tokio::time::Instant;

/// The longest wait for the cluster's controllers, on a busy machine.
pub const CONTROLLER_TIMEOUT: Duration = Duration::from_secs(120);

/// A namespace. Dropping it removes it in the background.
pub struct TestNamespace {
    pub name: String,
    pub client: Client,
}

impl TestNamespace {
    /// Creates a namespace, and waits until it admits pods.
    pub async fn new() -> Self {
        let client = Client::try_default().await.expect("a client");
        let name = sandbox_core::spi::unique_name("sandbox-test");
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
        wait_until("the namespace has an account", async || {
            accounts.get_opt("default").await.expect("asked").is_some()
        })
        .await;
        this
    }

    /// The configuration of a backend for this namespace.
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

    /// Creates an object in the namespace.
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

    /// Creates a pod, and waits until it has started.
    pub async fn start(&self, pod: &Pod) -> Pod {
        let begin = Instant::now();
        let made = loop {
            match self.pods().create(&PostParams::default(), pod).await {
                Ok(made) => break made,
                // Servers before 1.24 create the account's token after the account.
                Err(kube::Error::Api(status)) if status.message.contains("No API token") => {
                    assert!(begin.elapsed() < CONTROLLER_TIMEOUT, "{status:?}");
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
            assert!(
                begin.elapsed() < CONTROLLER_TIMEOUT,
                "{name} does not run: {found:?}"
            );
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

    /// Waits until the namespace has no pod.
    pub async fn wait_empty(&self) {
        wait_until("the namespace has no pod", async || {
            self.names().await.is_empty()
        })
        .await;
    }

    /// The internal address of the only node.
    pub async fn node_address(&self) -> IpAddr {
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

impl Drop for TestNamespace {
    fn drop(&mut self) {
        let name = self.name.clone();
        // The test's runtime may be shutting down, so this needs its own.
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

/// Waits until the condition holds, at most [`CONTROLLER_TIMEOUT`].
pub async fn wait_until(what: &str, condition: impl AsyncFnMut() -> bool) {
    wait_until_async(what, CONTROLLER_TIMEOUT, condition).await;
}

/// A client with this configuration.
pub fn client(config: KubernetesConfig, policy: CapabilityPolicy) -> SandboxClient {
    let backend = Arc::new(KubernetesBackend::new(config));
    SandboxClient::with_backend(backend, policy).expect("a client")
}

/// A TCP listener on the node. Dropping it closes the port.
pub struct NodeListener {
    pub address: SocketAddr,
    _task: tokio::task::JoinHandle<()>,
}

impl NodeListener {
    pub async fn new(node: IpAddr) -> Self {
        let listener = tokio::net::TcpListener::bind((node, 0)).await;
        let listener = listener.expect("a port of the node, on which the tests run");
        let address = listener.local_addr().expect("an address");
        let _task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                drop(connection);
            }
        });
        Self { address, _task }
    }

    /// A script for a sandbox. Prints "open" if it can connect, and "tried" at its end.
    pub fn connect_script(&self) -> String {
        let (address, port) = (self.address.ip(), self.address.port());
        format!("nc -w 3 {address} {port} </dev/null && echo open; echo tried")
    }
}

impl Drop for NodeListener {
    fn drop(&mut self) {
        self._task.abort();
    }
}
