//! The backend against a real cluster: the one of `KUBECONFIG`, whose nodes have the images of `cargo xtask images`.
//!
//! Without a cluster the tests are listed as ignored, with the reason; `SANDBOX_REQUIRE` with the tier's name makes that a failure.

mod adopt;
mod changed;
mod cluster;
mod contract;
mod cut;
mod detached;
mod failing_fast;
mod ground;
mod in_cluster;
mod isolation;
mod last_message;
mod lease;
mod limits;
mod namespace;
mod network;
mod own_namespace;
mod owner;
mod pool;
mod profiles;
mod resume;
mod rights;
mod scale;
mod storage;
mod template;
mod visitors;
mod webhook;
mod workspace;

use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

use libtest_mimic::{Arguments, Failed, Trial};
use sandbox_testing::requirements::is_required;

const TIER: &str = "k8s";

type Done = Result<(), Failed>;
type Test = (&'static str, fn() -> Done);

/// A module's tests begin with its name.
const TESTS: &[&[Test]] = &[
    adopt::TESTS,
    changed::TESTS,
    cut::TESTS,
    detached::TESTS,
    failing_fast::TESTS,
    isolation::TESTS,
    in_cluster::TESTS,
    lease::TESTS,
    last_message::TESTS,
    limits::TESTS,
    network::TESTS,
    pool::TESTS,
    profiles::TESTS,
    resume::TESTS,
    rights::TESTS,
    scale::TESTS,
    storage::TESTS,
    template::TESTS,
    visitors::TESTS,
    webhook::TESTS,
    workspace::TESTS,
];

/// Runs a test beside the others; the one that fills the nodes by itself, since the times to live of others' pods would be over before
/// those run.
fn in_turn(name: &str, test: impl FnOnce() -> Done) -> Done {
    static NODES: RwLock<()> = RwLock::new(());
    // What a test that failed has left is its own.
    if scale::TESTS.iter().any(|(alone, _)| *alone == name) {
        let _alone = NODES.write().unwrap_or_else(PoisonError::into_inner);
        test()
    } else {
        let _beside = NODES.read().unwrap_or_else(PoisonError::into_inner);
        test()
    }
}

fn main() -> ExitCode {
    if let Some(code) = owner::run_if_asked() {
        return code;
    }
    if let Some(code) = in_cluster::run_if_asked() {
        return code;
    }
    if let Some(code) = visitors::run_if_asked() {
        return code;
    }
    if pool::doomed() {
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let missing = cluster::missing();
    if let Some(reason) = &missing {
        println!("NOT RUN: tests that need a cluster: {reason}");
        if is_required(TIER) {
            eprintln!("SANDBOX_REQUIRE={TIER}: a cluster is required");
            return ExitCode::FAILURE;
        }
    }
    for (name, reason) in contract::NOT_APPLICABLE {
        println!("NOT RUN: {name}: {reason}");
    }
    let applies = |name: &str| {
        let mut names = contract::NOT_APPLICABLE.iter();
        !names.any(|(not_applicable, _)| name.starts_with(not_applicable))
    };
    let of_pods = TESTS
        .iter()
        .copied()
        .flatten()
        .map(|(name, test)| Trial::test(*name, || in_turn(name, *test)));
    let of_contract = sandbox_testing::contract::tests()
        .filter(|(name, _)| applies(name))
        .map(|(name, test)| Trial::test(*name, move || in_turn(name, || test(&contract::Pods))));
    let trials = of_pods
        .chain(of_contract)
        .map(|trial| trial.with_kind(TIER).with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
