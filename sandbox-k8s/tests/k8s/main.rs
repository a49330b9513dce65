//! The backend on the cluster of `KUBECONFIG`, whose nodes have the images of `cargo xtask images`.
//!
//! Without a cluster, the tests are listed as ignored, with the reason. If `SANDBOX_REQUIRE` names
//! the tier, that is a failure.

mod adopt;
mod capacity;
mod changed_pods;
mod cluster;
mod contract;
mod detached;
mod egress;
mod failures;
mod in_cluster;
mod inspection;
mod last_message;
mod lease;
mod many_clients;
mod network;
mod network_cut;
mod owner;
mod packages;
mod pool;
mod resume;
mod rights;
mod scale;
mod storage;
mod template;
mod test_namespace;
mod webhook;
mod workspace;

use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

use libtest_mimic::{Arguments, Trial};
use sandbox_testing::contract::TestResult;
use sandbox_testing::requirements::fail_if_required;
use sandbox_testing::trials::{ignore, ignored_if};

const TIER: &str = "k8s";

type ClusterTest = (&'static str, fn() -> TestResult);

/// A module's tests begin with its name.
const TESTS: &[&[ClusterTest]] = &[
    adopt::TESTS,
    changed_pods::TESTS,
    network_cut::TESTS,
    detached::TESTS,
    egress::TESTS,
    failures::TESTS,
    in_cluster::TESTS,
    lease::TESTS,
    last_message::TESTS,
    network::TESTS,
    packages::TESTS,
    pool::TESTS,
    resume::TESTS,
    rights::TESTS,
    scale::TESTS,
    storage::TESTS,
    template::TESTS,
    many_clients::TESTS,
    webhook::TESTS,
    workspace::TESTS,
];

/// Runs a test beside the others. A test of `scale` fills the nodes, so it runs alone: the lifetime
/// of other tests' pods would end before they are scheduled.
fn with_room_on_nodes(name: &str, test: impl FnOnce() -> TestResult) -> TestResult {
    static NODES: RwLock<()> = RwLock::new(());
    // A test that failed does not affect the others.
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
    if let Some(code) = many_clients::run_if_asked() {
        return code;
    }
    if let Some(code) = sandbox_testing::contract::egress::run_owner_if_asked(&contract::Pods) {
        return code;
    }
    if pool::doomed() {
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let missing = cluster::missing();
    if let Some(code) = fail_if_required(TIER, missing.as_deref()) {
        return code;
    }
    let of_pods = TESTS
        .iter()
        .copied()
        .flatten()
        .map(|(name, test)| Trial::test(*name, || with_room_on_nodes(name, *test)));
    let of_contract = sandbox_testing::contract::tests().map(|(name, test)| {
        Trial::test(*name, move || {
            with_room_on_nodes(name, || test(&contract::Pods))
        })
    });
    let of_egress = sandbox_testing::contract::egress::TESTS
        .iter()
        .map(|(name, test)| {
            Trial::test(*name, move || {
                with_room_on_nodes(name, || test(&contract::Pods))
            })
        });
    let of_packages = sandbox_testing::contract::package_tests().map(|(name, test)| {
        Trial::test(*name, move || {
            with_room_on_nodes(name, || test(&contract::Pods))
        })
    });
    let trials = of_pods
        .chain(of_contract)
        .chain(of_egress)
        .chain(of_packages)
        .map(|trial| ignored_if(trial.with_kind(TIER), missing.as_deref()));
    let not_applicable = contract::NOT_APPLICABLE.iter();
    let mut reasons = not_applicable
        .map(|(tests, reason)| (*tests, (*reason).to_owned()))
        .collect::<Vec<_>>();
    if missing.is_none() {
        for (tests, image) in sandbox_testing::contract::OPTIONAL_IMAGES {
            let reason = cluster::run(contract::lacks(image));
            reasons.extend(reason.map(|reason| (*tests, reason)));
        }
    }
    let trials = ignore(trials.collect(), &reasons);
    libtest_mimic::run(&arguments, trials).exit_code()
}
