//! Faults around sandboxes on a cluster: an API server that is killed and comes back or not, and
//! owners that are killed.
//!
//! The cluster is the one of `cargo xtask engines up k8s`. Its other users are not affected: the
//! tests have their own namespaces, and kill their own API server on the same state. Elsewhere they
//! are listed as ignored, with the reason. If `SANDBOX_REQUIRE` names the tier, that is a failure.

mod cluster;
mod kubectl_proxy;
mod node_faults;
mod owner;
mod owner_killed;
mod server;
mod server_faults;
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../k8s/test_namespace.rs"]
mod test_namespace;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use sandbox_testing::contract::TestResult;
use sandbox_testing::requirements::fail_if_required;
use sandbox_testing::trials::ignored_if;

const TIER: &str = "k8s";

type ClusterTest = (&'static str, fn() -> TestResult);

fn main() -> ExitCode {
    if let Some(code) = owner::run_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Each has a server or many pods.
    arguments.test_threads = Some(1);
    let missing = cluster::missing();
    // The tests may not kill the API server of a user's own cluster.
    if !cluster::is_foreign()
        && let Some(code) = fail_if_required(TIER, missing.as_deref())
    {
        return code;
    }
    let no_own_node = missing.clone().or_else(node_faults::missing);
    let groups = [
        (server_faults::TESTS, &missing),
        (owner_killed::TESTS, &missing),
        (node_faults::TESTS, &no_own_node),
    ];
    let trials = groups.into_iter().flat_map(|(tests, missing)| {
        tests.iter().map(|(name, test)| {
            let trial = Trial::test(*name, *test).with_kind(TIER);
            ignored_if(trial, missing.as_deref())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
