//! Tests of what goes wrong around sandboxes: engines that end, and owners that are killed. Each
//! test starts its own engine, so that it can count what is left.
//!
//! They need the engine's programs and a test image. Without them, the tests are listed as ignored,
//! with the reason. If `SANDBOX_REQUIRE` names the tier, that is a failure.

mod canary;
mod cycles;
mod engine_ends;
mod launcher;
mod owner;
mod owner_killed;
mod private_engine;
mod prune;
mod quota;
mod removed_containers;
mod users;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::contract::TestResult;
use crate::requirements::fail_if_required;
use crate::trials::ignored_if;

pub use launcher::{DaemonCommand, EngineLauncher};

/// A test's name and its function.
type FaultTest = (&'static str, fn(&'static dyn EngineLauncher) -> TestResult);

/// The tests that need only an engine.
const TESTS: &[&[FaultTest]] = &[
    engine_ends::TESTS,
    removed_containers::TESTS,
    owner_killed::TESTS,
    prune::TESTS,
    cycles::TESTS,
];

/// The `main` of a test program: runs the tests, or the owner that a test started this process for.
pub fn main(launcher: &'static dyn EngineLauncher) -> ExitCode {
    if let Some(code) = owner::run_if_asked(launcher) {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Each test runs a daemon.
    arguments.test_threads = Some(1);
    let tier = launcher.tier();
    let missing = private_engine::missing(launcher);
    if let Some(code) = fail_if_required(tier, missing.as_deref()) {
        return code;
    }
    let without_more = TESTS.iter().map(|tests| (*tests, None));
    let with_more = [
        (canary::TESTS, canary::missing()),
        (quota::TESTS, quota::missing()),
        (users::TESTS, users::missing(launcher)),
    ];
    let trials = without_more.chain(with_more).flat_map(|(tests, more)| {
        let missing = missing.clone().or(more);
        tests.iter().map(move |(name, test)| {
            let trial = Trial::test(*name, move || test(launcher)).with_kind(tier);
            ignored_if(trial, missing.as_deref())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
