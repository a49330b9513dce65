//! What goes wrong around sandboxes on a cluster: an API server that is killed and comes back, or does not, and owners that are killed.
//!
//! The cluster is the one of `cargo xtask engines up k8s`, and nobody else notices: the tests have namespaces of their own, and an API
//! server of their own on the same state, which is theirs to kill. Elsewhere they are listed as ignored, with the reason;
//! `SANDBOX_REQUIRE` with the tier's name makes that a failure.

mod cluster;
#[expect(dead_code, reason = "part of it is for the other tests alone")]
#[path = "../k8s/ground.rs"]
mod ground;
mod kubectl_proxy;
mod node_faults;
mod owner;
mod owner_killed;
mod server;
mod server_faults;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use sandbox_testing::requirements::is_required;

const TIER: &str = "k8s";

type Done = Result<(), Failed>;
type Test = (&'static str, fn() -> Done);

fn main() -> ExitCode {
    if let Some(code) = owner::run_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Each has a server or many pods.
    arguments.test_threads = Some(1);
    let missing = cluster::missing();
    if let Some(reason) = &missing {
        println!("NOT RUN: tests that start an API server: {reason}");
        // A user's own cluster has no server that is ours to kill.
        if is_required(TIER) && !cluster::is_foreign() {
            eprintln!("SANDBOX_REQUIRE={TIER}: a cluster is required");
            return ExitCode::FAILURE;
        }
    }
    let trial = |(name, test): &Test, ignored: bool| {
        Trial::test(*name, *test)
            .with_kind(TIER)
            .with_ignored_flag(ignored)
    };
    let tests = [server_faults::TESTS, owner_killed::TESTS];
    let tests = tests.iter().copied().flatten();
    let mut trials = tests
        .map(|test| trial(test, missing.is_some()))
        .collect::<Vec<_>>();
    let shared = node_faults::missing();
    if let (None, Some(reason)) = (&missing, &shared) {
        println!("NOT RUN: tests that kill a node's daemons: {reason}");
    }
    let unkillable = missing.is_some() || shared.is_some();
    trials.extend(
        node_faults::TESTS
            .iter()
            .map(|test| trial(test, unkillable)),
    );
    libtest_mimic::run(&arguments, trials).exit_code()
}
