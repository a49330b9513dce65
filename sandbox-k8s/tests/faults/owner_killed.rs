//! Owners that are killed with SIGKILL at given requests.

use std::time::Duration;

use sandbox_testing::fault_proxy::{Breakpoint, FaultProxy, after, before};
use sandbox_testing::processes::Signal;

use super::cluster::{kubeconfig, run};
use super::kubectl_proxy::KubectlProxy;
use super::owner;
use super::server::write_kubeconfig;
use super::{ClusterTest, TestResult};
use crate::test_namespace::TestNamespace;

pub const TESTS: &[ClusterTest] = &[("owner_killed::at_any_request_leaves_nothing", killed)];

/// The longest that a killed owner's pods may run: the lease is one minute, and an agent waits two
/// minutes for its first client.
const LEASE: Duration = Duration::from_secs(180);

/// The requests that upload the agent into a namespace.
const AGENT: &[Breakpoint] = &[
    before("GET", "/configmaps/"),
    before("POST", "/configmaps"),
    after("POST", "/configmaps"),
];

/// The requests of a sandbox, in order.
const LIFE: &[Breakpoint] = &[
    before("POST", "/pods"),
    after("POST", "/pods"),
    before("GET", "watch="),
    after("GET", "watch="),
    before("GET", "/exec?"),
    after("GET", "/exec?"),
    before("DELETE", "/pods/"),
    after("DELETE", "/pods/"),
];

/// A phase of the owner, and the delay in milliseconds after which it is killed.
const WORK: &[(&str, u64)] = &[
    ("exec", 200),
    ("exec", 800),
    ("copy", 50),
    ("copy", 300),
    ("remove", 20),
];

fn killed() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let kubectl = KubectlProxy::start();
        for breakpoint in AGENT {
            namespace.remove_agents().await;
            kill_at(&namespace, &kubectl, *breakpoint);
            eprintln!("{breakpoint:?}: {:?}", namespace.objects().await);
            assert_eq!(namespace.phases().await, [], "{breakpoint:?}");
        }
        namespace.wait_clean("on the agent's way").await?;
        for breakpoint in LIFE {
            kill_at(&namespace, &kubectl, *breakpoint);
            eprintln!("{breakpoint:?}: {:?}", namespace.phases().await);
        }
        for (word, delay) in WORK {
            let mut owner = owner::start(
                &kubeconfig().expect("checked by missing()"),
                &namespace.name,
            );
            owner.wait_until(word);
            tokio::time::sleep(Duration::from_millis(*delay)).await;
            owner.kill();
        }
        // All leases end at about the same time.
        eprintln!("{:?} were left to their leases", namespace.phases().await);
        let has_ended = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
        namespace
            .wait_for("owners were killed", LEASE, has_ended)
            .await;
        eprintln!("{:?} are left to the next client", namespace.phases().await);
        namespace.wait_clean("owners were killed").await?;
        Ok(())
    })
}

/// Starts an owner and waits until it was killed.
fn kill_at(namespace: &TestNamespace, kubectl: &KubectlProxy, breakpoint: Breakpoint) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("kubeconfig");
    let proxy = FaultProxy::tcp(kubectl.port, breakpoint);
    write_kubeconfig(&config, proxy.address());
    let mut owner = owner::start(&config, &namespace.name);
    proxy.aim(vec![owner.pid()], Signal::Kill);
    tokio::task::block_in_place(|| proxy.wait_answered());
    owner.kill();
}
