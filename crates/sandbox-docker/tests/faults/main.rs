//! What goes wrong around sandboxes: engines that end, and owners that are killed. Each group has an engine of its own, which nobody
//! else uses, so that what is left can be counted.
//!
//! Needs root, and Docker's programs and a test image; without them the tests are listed as ignored, with the reason.
//! `SANDBOX_REQUIRE=docker` makes that a failure.

mod cycles;
mod engine;
mod faults;
mod moments;
mod owner;
mod proxy;
mod prune;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

type Test = (&'static str, fn() -> Result<(), Failed>);

fn main() -> ExitCode {
    if let Some(code) = owner::run_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Each has a daemon with all that belongs to it.
    arguments.test_threads = Some(1);
    let missing = engine::missing();
    let required = std::env::var("SANDBOX_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|name| name.trim() == "docker"));
    if let Some(reason) = &missing {
        eprintln!("not run: tests that start a Docker engine: {reason}");
        if required {
            eprintln!("SANDBOX_REQUIRE=docker: an engine is required");
            return ExitCode::FAILURE;
        }
    }
    let tests = [faults::TESTS, moments::TESTS, prune::TESTS, cycles::TESTS];
    let trials = tests.iter().copied().flatten().map(|(name, test)| {
        Trial::test(*name, *test)
            .with_kind("docker")
            .with_ignored_flag(missing.is_some())
    });
    libtest_mimic::run(&arguments, trials.collect::<Vec<_>>()).exit_code()
}
