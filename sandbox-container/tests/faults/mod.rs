//! What goes wrong around sandboxes: engines that end, and owners that are killed. Each group has an engine of its own, which nobody
//! else uses, so that what is left can be counted. Each family's crate has these tests as its own: a test program with a module `family`
//! that says how an engine of it is started, and this module beside it.
//!
//! Needs the engine's programs and a test image; without them the tests are listed as ignored, with the reason. `SANDBOX_REQUIRE` with the
//! tier's name makes that a failure.

mod canary;
mod cycles;
pub mod engine;
mod faults;
mod life;
mod listing;
mod moments;
mod owner;
mod phantom;
pub mod processes;
mod proxy;
mod prune;
mod quota;
mod users;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::family::TIER;

type Test = (&'static str, fn() -> Result<(), Failed>);

/// Runs the tests, or what a test starts this program for.
pub fn main() -> ExitCode {
    if let Some(code) = owner::run_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Each has a daemon with all that belongs to it.
    arguments.test_threads = Some(1);
    let missing = engine::missing();
    let required = std::env::var("SANDBOX_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|name| name.trim() == TIER));
    if let Some(reason) = &missing {
        eprintln!("not run: tests that start an engine for {TIER}: {reason}");
        if required {
            eprintln!("SANDBOX_REQUIRE={TIER}: an engine is required");
            return ExitCode::FAILURE;
        }
    }
    let tests = [
        faults::TESTS,
        phantom::TESTS,
        moments::TESTS,
        prune::TESTS,
        cycles::TESTS,
    ];
    let tests = tests.iter().copied().flatten();
    let mut trials = tests
        .map(|test| trial(test, missing.is_some()))
        .collect::<Vec<_>>();
    // What needs more than an engine.
    for (name, lacking, tests) in [
        (
            "canary",
            canary::missing().map(str::to_owned),
            canary::TESTS,
        ),
        ("quota", quota::missing(), quota::TESTS),
        ("users", users::missing(), users::TESTS),
    ] {
        match lacking {
            Some(reason) => println!("NOT RUN: {name}: {reason}"),
            None => trials.extend(tests.iter().map(|test| trial(test, missing.is_some()))),
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial((name, test): &Test, ignored: bool) -> Trial {
    Trial::test(*name, *test)
        .with_kind(TIER)
        .with_ignored_flag(ignored)
}
