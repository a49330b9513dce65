//! What a NetworkPolicy is worth on this cluster, and on one that enforces it: that one is made up, by somebody who does on the node what a
//! network with policies would do. It needs root on the only node, where the tests run.

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
use sandbox_k8s::{KubernetesBackend, PodProfile, WarmPool};

use crate::cluster::{output, run, small};
use crate::ground::{Ground, Outsider, client};
use crate::{Done, Test};

pub const TESTS: &[Test] = &[
    ("network::a_policy_that_nobody_enforces_is_none", unenforced),
    ("network::a_policy_that_is_enforced_denies", enforced),
    ("network::a_warm_pool_under_a_policy", pooled),
    (
        "network::a_policy_for_a_label_of_the_specification_opens_nothing",
        labeled,
    ),
    ("network::a_policy_that_lets_pods_in_is_none", half_enforced),
    ("network::without_a_witness_nothing_is_proven", no_witness),
];

/// What the made up network takes away of a pod under the policy.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Enforced {
    /// Everything, some time after the pod has begun.
    All,
    /// The same, but for pods that another policy selects by the label `app=api`: policies add up.
    AllButApi,
    /// What it sends, and nothing of what it gets.
    Outwards,
}

/// A network that enforces the policy, as long as this lives.
struct Network {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Network {
    fn new(ground: &Ground, enforced: Enforced) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (seen, client, name) = (
            Arc::clone(&ends),
            Client::try_default(),
            ground.name.clone(),
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

impl Drop for Network {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Denies a pod its network, from the node; says whether there was something to deny.
fn deny(id: &str, enforced: Enforced) -> bool {
    let Some(network) = network_of(id) else {
        return false;
    };
    let rules: &[&[&str]] = match enforced {
        Enforced::All | Enforced::AllButApi => &[
            &["-A", "OUTPUT", "!", "-o", "lo", "-j", "DROP"],
            &["-A", "INPUT", "!", "-i", "lo", "-j", "DROP"],
        ],
        // Answers to those who have come in are let through.
        Enforced::Outwards => &[&[
            "-A", "OUTPUT", "!", "-o", "lo", "-p", "tcp", "--syn", "-j", "DROP",
        ]],
    };
    // The descriptor, and not the process, which may be another one by now.
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

/// The network namespace of a pod: that of the process that holds it open for the pod's containers. Every other one may be the runtime's
/// on its way in, whose network is still the node's, where the rules would cut off everybody.
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

fn unenforced() -> Done {
    run(async {
        let ground = Ground::new().await;
        let config = ground.config().profile(PodProfile::Restricted);
        let refusing = client(config.clone(), CapabilityPolicy::new());
        let error = refusing.create(&small("open")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("network_access"), "{text}");
        assert!(text.contains("a pod under it reaches"), "{text}");
        ground.empty().await;

        let mut policy = CapabilityPolicy::new();
        policy.allow_unenforced = vec![Capability::NetworkAccess];
        let sandbox = client(config, policy).create(&small("open")).await?;
        let entry = sandbox.enforcement().get(Capability::NetworkAccess);
        assert!(!entry.expect("an entry").is_enforced(), "{entry:?}");
        sandbox.kill().await?;
        ground.empty().await;
        Ok(())
    })
}

async fn cannot_reach(sandbox: &SandboxHandle, outsider: &Outsider) {
    let tried = output(sandbox, &outsider.dial()).await;
    assert!(
        tried.contains("tried") && !tried.contains("open"),
        "{tried}"
    );
}

fn enforced() -> Done {
    run(async {
        let ground = Ground::new().await;
        let outsider = Outsider::new(ground.node().await).await;
        let _network = Network::new(&ground, Enforced::All);
        let config = ground
            .config()
            .profile(PodProfile::Restricted)
            .canary_target(outsider.address);
        let client = client(config, CapabilityPolicy::new());
        let begin = std::time::Instant::now();
        let sandbox = client.create(&small("denied")).await?;
        eprintln!("with a canary: {:?}", begin.elapsed());
        let entry = sandbox.enforcement().get(Capability::NetworkAccess);
        let entry = entry.expect("an entry");
        assert!(entry.is_enforced(), "{entry}");
        assert!(entry.to_string().contains("canary"), "{entry}");
        cannot_reach(&sandbox, &outsider).await;
        // The three of the canary are gone.
        assert_eq!(ground.names().await.len(), 1);
        sandbox.kill().await?;
        // What is known stands for a while.
        let begin = std::time::Instant::now();
        let second = client.create(&small("denied")).await?;
        eprintln!("without: {:?}", begin.elapsed());
        second.kill().await?;
        ground.empty().await;
        Ok(())
    })
}

/// A policy of the namespace lets the pods of its application out; code whose specification has the same label gets nothing by that.
fn labeled() -> Done {
    run(async {
        let ground = Ground::new().await;
        let outsider = Outsider::new(ground.node().await).await;
        let _network = Network::new(&ground, Enforced::AllButApi);
        let config = ground
            .config()
            .profile(PodProfile::Restricted)
            .canary_target(outsider.address);
        let spec = small("labeled").label("app", "api");
        let sandbox = client(config.clone(), CapabilityPolicy::new())
            .create(&spec)
            .await?;
        let entry = sandbox.enforcement().get(Capability::NetworkAccess);
        let entry = entry.expect("an entry");
        assert!(entry.is_enforced(), "{entry}");
        cannot_reach(&sandbox, &outsider).await;
        sandbox.kill().await?;
        // The control: as a label of the pod it would, and the pod waits in vain for a denial.
        #[cfg(feature = "mutants")]
        {
            let config = config.mutated(sandbox_k8s::Mutation::Labels);
            let opened = client(config, CapabilityPolicy::new()).create(&spec).await;
            let error = opened.expect_err("its network stays");
            assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        }
        ground.empty().await;
        Ok(())
    })
}

/// A pod that was started ahead is under the policy as well, and says so.
fn pooled() -> Done {
    run(async {
        let ground = Ground::new().await;
        let outsider = Outsider::new(ground.node().await).await;
        let _network = Network::new(&ground, Enforced::All);
        let config = ground
            .config()
            .profile(PodProfile::Restricted)
            .canary_target(outsider.address)
            .warm(WarmPool::new(1));
        let backend = Arc::new(KubernetesBackend::new(config));
        let client = SandboxClient::with_backend(backend.clone(), CapabilityPolicy::new())?;
        let (plan, ..) = client.check(&small("ahead")).await?;
        assert_eq!(backend.prepare(&plan).await?, 1, "{:?}", backend.pool());
        let sandbox = client.create(&small("claims")).await?;
        let counts = backend.pool().expect("a pool");
        assert_eq!((counts.claimed, counts.missed), (1, 0), "{counts:?}");
        for (capability, words) in [
            (Capability::NetworkAccess, "canary"),
            (Capability::Processes, "warm pool"),
        ] {
            let entry = sandbox.enforcement().get(capability).expect("an entry");
            assert!(entry.is_enforced(), "{entry}");
            assert!(entry.to_string().contains(words), "{entry}");
        }
        cannot_reach(&sandbox, &outsider).await;
        sandbox.kill().await?;
        drop((client, backend));
        ground.empty().await;
        Ok(())
    })
}

fn half_enforced() -> Done {
    run(async {
        let ground = Ground::new().await;
        let outsider = Outsider::new(ground.node().await).await;
        let _network = Network::new(&ground, Enforced::Outwards);
        let config = ground
            .config()
            .profile(PodProfile::Restricted)
            .canary_target(outsider.address);
        let client = client(config, CapabilityPolicy::new());
        let error = client.create(&small("half")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("is reached by another one"), "{text}");
        ground.empty().await;
        Ok(())
    })
}

/// Everything is denied, and nobody without the policy reaches anything outside, either: on this cluster, nothing answers there.
fn no_witness() -> Done {
    run(async {
        let ground = Ground::new().await;
        let gone = {
            let outsider = Outsider::new(ground.node().await).await;
            outsider.address
        };
        let _network = Network::new(&ground, Enforced::All);
        let config = ground
            .config()
            .profile(PodProfile::Restricted)
            .canary_target(gone);
        let client = client(config, CapabilityPolicy::new());
        let error = client.create(&small("blind")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("was not proven"), "{text}");
        assert!(text.contains(&gone.to_string()), "{text}");
        ground.empty().await;
        Ok(())
    })
}
