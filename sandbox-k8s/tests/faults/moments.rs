//! Owners that are killed with SIGKILL at given moments.

use std::time::Duration;

use super::cluster::{Space, kubeconfig, run};
use super::owner;
use super::proxy::{Moment, Plain, Proxy, When};
use super::server::write_kubeconfig;
use super::{Done, Test};

pub const TESTS: &[Test] = &[("moments::an_owner_is_killed_at_any_moment", killed)];

/// How long anything of a killed owner may run: its lease is a minute, and an agent waits two for its first visitor.
const LEASE: Duration = Duration::from_secs(180);

/// How the agent gets into a namespace.
const AGENT: &[Moment] = &[
    ("GET", "/configmaps/", When::Asked),
    ("POST", "/configmaps", When::Asked),
    ("POST", "/configmaps", When::Answered),
];

/// The requests of a sandbox's life, in their order.
const LIFE: &[Moment] = &[
    ("POST", "/pods", When::Asked),
    ("POST", "/pods", When::Answered),
    ("GET", "watch=", When::Asked),
    ("GET", "watch=", When::Answered),
    ("GET", "/exec?", When::Asked),
    ("GET", "/exec?", When::Answered),
    ("DELETE", "/pods/", When::Asked),
    ("DELETE", "/pods/", When::Answered),
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
        let plain = Plain::start();
        for moment in AGENT {
            space.forget_agents().await;
            kill_at(&space, &plain, *moment);
            eprintln!("{moment:?}: {:?}", space.objects().await);
            assert_eq!(space.pods().await, [], "{moment:?}");
        }
        space.is_clean("on the agent's way").await?;
        for moment in LIFE {
            kill_at(&space, &plain, *moment);
            eprintln!("{moment:?}: {:?}", space.pods().await);
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
fn kill_at(space: &Space, plain: &Plain, moment: Moment) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("kubeconfig");
    let proxy = Proxy::start(plain, moment);
    write_kubeconfig(&config, &proxy.address());
    let mut owner = owner::start(&config, &space.name);
    proxy.aim(owner.pid());
    tokio::task::block_in_place(|| proxy.wait());
    owner.kill();
}
