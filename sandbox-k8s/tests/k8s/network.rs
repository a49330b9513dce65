//! Whether the backend detects that a NetworkPolicy is enforced. This cluster enforces none. A
//! cluster that does is simulated with iptables rules, which needs root on the only node.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Client;
use kube::api::ListParams;
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind, SandboxClient, SandboxHandle};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig, PodProfile, WarmPool};

use crate::cluster::{output, run, small};
use crate::test_namespace::{NodeListener, TestNamespace, client};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("network::an_unenforced_policy_is_refused", unenforced),
    ("network::an_enforced_policy_denies_the_network", enforced),
    ("network::pods_of_a_warm_pool_are_under_the_policy", pooled),
    (
        "network::a_policy_for_a_label_of_the_specification_does_not_apply",
        labeled,
    ),
    (
        "network::a_policy_that_allows_incoming_connections_is_refused",
        half_enforced,
    ),
    (
        "network::an_unreachable_canary_target_proves_nothing",
        no_witness,
    ),
];

/// What the simulated network denies to a pod under the policy.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Enforced {
    /// All connections, some time after the pod has started.
    All,
    /// The same, except for pods with the label `app=api`, which another policy allows.
    AllButApi,
    /// Outgoing connections only.
    Outwards,
}

/// Enforces the policy on the node's pods until it is dropped.
struct SimulatedNetwork {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SimulatedNetwork {
    fn new(namespace: &TestNamespace, enforced: Enforced) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (seen, client, name) = (
            Arc::clone(&ends),
            Client::try_default(),
            namespace.name.clone(),
        );
        let thread = std::thread::spawn(move || {
            run(async move {
                let client = client.await.expect("a client");
                let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
                    kube::Api::namespaced(client, &name);
                let under = ListParams::default().labels(match enforced {
                    Enforced::AllButApi => "sandbox.network=denied,app!=api",
                    Enforced::All | Enforced::Outwards => "sandbox.network=denied",
                });
                let mut done = HashSet::new();
                while !seen.load(Ordering::Relaxed) {
                    let found = pods.list(&under).await;
                    for pod in found.into_iter().flatten() {
                        let id = pod.metadata.uid.unwrap_or_default();
                        if !done.contains(&id) && deny(&id, enforced) {
                            done.insert(id);
                        }
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            });
        });
        Self {
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for SimulatedNetwork {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A namespace on a cluster that enforces policies, and a listener outside of its pods.
struct SimulatedCluster {
    namespace: TestNamespace,
    listener: NodeListener,
    _network: SimulatedNetwork,
}

impl SimulatedCluster {
    async fn new(enforced: Enforced) -> Self {
        let namespace = TestNamespace::new().await;
        let listener = NodeListener::new(namespace.node_address().await).await;
        let _network = SimulatedNetwork::new(&namespace, enforced);
        Self {
            namespace,
            listener,
            _network,
        }
    }

    /// The configuration of a backend whose canary connects to the listener.
    fn config(&self) -> KubernetesConfig {
        self.namespace
            .config()
            .profile(PodProfile::Restricted)
            .canary_target(self.listener.address)
    }
}

/// Denies a pod its network from the node. Returns whether the pod had one.
fn deny(id: &str, enforced: Enforced) -> bool {
    let Some(network) = network_of(id) else {
        return false;
    };
    let rules: &[&[&str]] = match enforced {
        Enforced::All | Enforced::AllButApi => &[
            &["-A", "OUTPUT", "!", "-o", "lo", "-j", "DROP"],
            &["-A", "INPUT", "!", "-i", "lo", "-j", "DROP"],
        ],
        // Responses to incoming connections are allowed.
        Enforced::Outwards => &[&[
            "-A", "OUTPUT", "!", "-o", "lo", "-p", "tcp", "--syn", "-j", "DROP",
        ]],
    };
    // The descriptor, because the process ID may have been reused.
    let inside = format!(
        "--net=/proc/{}/fd/{}",
        std::process::id(),
        network.as_raw_fd()
    );
    rules.iter().all(|rule| {
        let mut command = Command::new("nsenter");
        command
            .args([inside.as_str(), "iptables", "-w"])
            .args(*rule);
        command.status().is_ok_and(|status| status.success())
    })
}

/// The network namespace of a pod, from its `pause` process. Another process of the pod may be the
/// runtime's while it enters, and the rules would then apply to the node's network.
fn network_of(pod: &str) -> Option<File> {
    let own = std::fs::metadata("/proc/self/ns/net")
        .expect("a namespace")
        .ino();
    let processes = std::fs::read_dir("/proc").expect("processes");
    processes.flatten().find_map(|entry| {
        let text = |file| std::fs::read_to_string(entry.path().join(file)).ok();
        if text("comm")?.trim() != "pause" || !text("cgroup")?.contains(pod) {
            return None;
        }
        let network = File::open(entry.path().join("ns/net")).ok()?;
        (network.metadata().ok()?.ino() != own).then_some(network)
    })
}

fn unenforced() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let config = namespace.config().profile(PodProfile::Restricted);
        let refusing = client(config.clone(), CapabilityPolicy::new());
        let error = refusing.create(&small("open")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("network_access"), "{text}");
        assert!(text.contains("a pod under it reaches"), "{text}");
        namespace.wait_empty().await;

        let mut policy = CapabilityPolicy::new();
        policy.allow_unenforced = vec![Capability::NetworkAccess];
        let sandbox = client(config, policy).create(&small("open")).await?;
        let entry = sandbox.enforcement().get(Capability::NetworkAccess);
        assert!(!entry.expect("an entry").is_enforced(), "{entry:?}");
        let sets = output(&sandbox, "grep -E 'CapBnd|NoNewPrivs' /proc/self/status").await;
        assert_eq!(sets, "CapBnd:\t0000000000000000\nNoNewPrivs:\t1\n");
        sandbox.kill().await?;
        namespace.wait_empty().await;
        Ok(())
    })
}

async fn assert_unreachable(sandbox: &SandboxHandle, listener: &NodeListener) {
    let tried = output(sandbox, &listener.connect_script()).await;
    assert!(
        tried.contains("tried") && !tried.contains("open"),
        "{tried}"
    );
}

fn enforced() -> TestResult {
    run(async {
        let cluster = SimulatedCluster::new(Enforced::All).await;
        let config = cluster.config();
        let client = client(config, CapabilityPolicy::new());
        let begin = std::time::Instant::now();
        let sandbox = client.create(&small("denied")).await?;
        eprintln!("with a canary: {:?}", begin.elapsed());
        let entry = sandbox.enforcement().get(Capability::NetworkAccess);
        let entry = entry.expect("an entry");
        assert!(entry.is_enforced(), "{entry}");
        assert!(entry.to_string().contains("canary"), "{entry}");
        assert_unreachable(&sandbox, &cluster.listener).await;
        // The three pods of the canary are removed.
        assert_eq!(cluster.namespace.names().await.len(), 1);
        sandbox.kill().await?;
        // The result is cached for a while.
        let begin = std::time::Instant::now();
        let second = client.create(&small("denied")).await?;
        eprintln!("without: {:?}", begin.elapsed());
        second.kill().await?;
        cluster.namespace.wait_empty().await;
        Ok(())
    })
}

/// A policy allows the network to pods with a label. A label of the specification is not a label of
/// the pod.
fn labeled() -> TestResult {
    run(async {
        let cluster = SimulatedCluster::new(Enforced::AllButApi).await;
        let config = cluster.config();
        let spec = small("labeled").label("app", "api");
        let sandbox = client(config.clone(), CapabilityPolicy::new())
            .create(&spec)
            .await?;
        let entry = sandbox.enforcement().get(Capability::NetworkAccess);
        let entry = entry.expect("an entry");
        assert!(entry.is_enforced(), "{entry}");
        assert_unreachable(&sandbox, &cluster.listener).await;
        sandbox.kill().await?;
        // The control: with the label on the pod, the network stays, and the pod is refused.
        #[cfg(feature = "mutants")]
        {
            let config = config.mutated(sandbox_k8s::PodMutation::Labels);
            let opened = client(config, CapabilityPolicy::new()).create(&spec).await;
            let error = opened.expect_err("its network stays");
            assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        }
        cluster.namespace.wait_empty().await;
        Ok(())
    })
}

/// A pod from the warm pool is under the policy, and its report says so.
fn pooled() -> TestResult {
    run(async {
        let cluster = SimulatedCluster::new(Enforced::All).await;
        let config = cluster.config().warm(WarmPool::new(1));
        let backend = Arc::new(KubernetesBackend::new(config));
        let client = SandboxClient::with_backend(backend.clone(), CapabilityPolicy::new())?;
        let plan = client.plan(&small("ahead"))?;
        assert_eq!(backend.prepare(&plan).await?, 1, "{:?}", backend.pool());
        let sandbox = client.create(&small("claims")).await?;
        let counts = backend.pool().expect("a pool");
        assert_eq!((counts.claimed, counts.missed), (1, 0), "{counts:?}");
        for (capability, expected) in [
            (Capability::NetworkAccess, "canary"),
            (Capability::Processes, "warm pool"),
        ] {
            let entry = sandbox.enforcement().get(capability).expect("an entry");
            assert!(entry.is_enforced(), "{entry}");
            assert!(entry.to_string().contains(expected), "{entry}");
        }
        assert_unreachable(&sandbox, &cluster.listener).await;
        sandbox.kill().await?;
        drop((client, backend));
        cluster.namespace.wait_empty().await;
        Ok(())
    })
}

fn half_enforced() -> TestResult {
    run(async {
        let cluster = SimulatedCluster::new(Enforced::Outwards).await;
        let config = cluster.config();
        let client = client(config, CapabilityPolicy::new());
        let error = client.create(&small("half")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("is reached by another one"), "{text}");
        cluster.namespace.wait_empty().await;
        Ok(())
    })
}

/// Everything is denied, but a pod without the policy cannot reach the target either.
fn no_witness() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let closed = {
            let listener = NodeListener::new(namespace.node_address().await).await;
            listener.address
        };
        let _network = SimulatedNetwork::new(&namespace, Enforced::All);
        let config = namespace
            .config()
            .profile(PodProfile::Restricted)
            .canary_target(closed);
        let client = client(config, CapabilityPolicy::new());
        let error = client.create(&small("blind")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("was not proven"), "{text}");
        assert!(text.contains(&closed.to_string()), "{text}");
        namespace.wait_empty().await;
        Ok(())
    })
}
