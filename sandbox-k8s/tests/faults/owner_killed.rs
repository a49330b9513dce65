//! Owners that are killed with SIGKILL at given moments.

use std::time::Duration;

use sandbox_testing::fault_proxy::{Breakpoint, FaultProxy, after, before};
use sandbox_testing::processes::Signal;

use super::cluster::{Space, kubeconfig, run};
use super::kubectl_proxy::KubectlProxy;
use super::owner;
use super::server::write_kubeconfig;
use super::{Done, Test};

pub const TESTS: &[Test] = &[("owner_killed::at_any_request_leaves_nothing", killed)];

/// How long anything of a killed owner may run: its lease is a minute, and an agent waits two for its first visitor.
const LEASE: Duration = Duration::from_secs(180);

/// How the agent gets into a namespace.
const AGENT: &[Breakpoint] = &[
    before("GET", "/configmaps/"),
    before("POST", "/configmaps"),
    after("POST", "/configmaps"),
];

/// The requests of a sandbox's life, in their order.
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

/// What an owner does meanwhile, and after how many milliseconds of it.
const WORK: &[(&str, u64)] = &[
    ("exec", 200),
    ("exec", 800),
    ("copy", 50),
    ("copy", 300),
    ("remove", 20),
];

fn killed() -> Done {
    run(async {
        let space = Space::make().await;
        let kubectl = KubectlProxy::start();
        for breakpoint in AGENT {
            space.forget_agents().await;
            kill_at(&space, &kubectl, *breakpoint);
            eprintln!("{breakpoint:?}: {:?}", space.objects().await);
            assert_eq!(space.pods().await, [], "{breakpoint:?}");
        }
        space.is_clean("on the agent's way").await?;
        for breakpoint in LIFE {
            kill_at(&space, &kubectl, *breakpoint);
            eprintln!("{breakpoint:?}: {:?}", space.pods().await);
        }
        for (word, delay) in WORK {
            let mut owner = owner::start(&kubeconfig().expect("looked at before"), &space.name);
            owner.wait_until(word);
            tokio::time::sleep(Duration::from_millis(*delay)).await;
            owner.kill();
        }
        // All of them wait for the ends of their leases at the same time.
        eprintln!("{:?} were left to their leases", space.pods().await);
        let has_ended = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
        space.wait_for("owners were killed", LEASE, has_ended).await;
        eprintln!("{:?} are left to the next client", space.pods().await);
        space.is_clean("owners were killed").await?;
        Ok(())
    })
}

/// Starts an owner and waits until it was killed.
fn kill_at(space: &Space, kubectl: &KubectlProxy, breakpoint: Breakpoint) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("kubeconfig");
    let proxy = FaultProxy::tcp(kubectl.port, breakpoint);
    write_kubeconfig(&config, proxy.address());
    let mut owner = owner::start(&config, &space.name);
    proxy.aim(vec![owner.pid()], Signal::Kill);
    tokio::task::block_in_place(|| proxy.wait_answered());
    owner.kill();
}
