//! Tests of what goes wrong around sandboxes: engines that end, and owners that are killed. Each
//! test starts its own engine, so that it can count what is left.
//!
//! They need the engine's programs and a test image. Without them, the tests are listed as ignored
//! and the reason is printed. If `SANDBOX_REQUIRE` names the tier, that is a failure.

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
use crate::requirements::is_required;

pub use launcher::{DaemonCommand, EngineLauncher};
pub use private_engine::is_root;

/// A test's name and its function.
type FaultTest = (&'static str, fn(&'static dyn EngineLauncher) -> TestResult);

/// The tests that need nothing but an engine.
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
    if let Some(reason) = &missing {
        eprintln!("not run: tests that start an engine for {tier}: {reason}");
        if is_required(tier) {
            eprintln!("SANDBOX_REQUIRE={tier}: an engine is required");
            return ExitCode::FAILURE;
        }
    }
    let trial = |(name, test): &'static FaultTest| {
        Trial::test(*name, move || test(launcher))
            .with_kind(tier)
            .with_ignored_flag(missing.is_some())
    };
    let mut trials = TESTS
        .iter()
        .copied()
        .flatten()
        .map(trial)
        .collect::<Vec<_>>();
    for (name, reason, tests) in [
        (
            "canary",
            canary::missing().map(str::to_owned),
            canary::TESTS,
        ),
        ("quota", quota::missing(), quota::TESTS),
        ("users", users::missing(launcher), users::TESTS),
    ] {
        match reason {
            Some(reason) => println!("NOT RUN: {name}: {reason}"),
            None => trials.extend(tests.iter().map(trial)),
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
