//! Tests of a backend on a running engine with Docker's API. They need the images of `cargo xtask
//! images`.
//!
//! Without an engine, the tests are listed as ignored and the reason is printed. If
//! `SANDBOX_REQUIRE` names the tier, that is a failure.

mod adopt;
mod build;
mod clients;
mod containers;
mod counter;
mod detached;
mod exchanged;
mod failures;
mod features;
mod hardening;
mod images;
mod inherited;
mod opened;
mod owner;
mod package_cache;
mod packages;
mod recipes;
mod registry;
mod runtime;
mod speed;
mod test_engine;
mod volume;
mod workspaces;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::contract::{self, TestResult};
use crate::requirements::is_required;

pub use test_engine::TestEngine;

/// A test's name and its function.
type EngineTest = (&'static str, fn(&'static TestEngine) -> TestResult);

/// The tests that need nothing but an engine and the images.
const TESTS: &[&[EngineTest]] = &[
    containers::TESTS,
    hardening::TESTS,
    inherited::TESTS,
    detached::TESTS,
    clients::TESTS,
    volume::TESTS,
    failures::WITH_ENGINE,
    images::TESTS,
    adopt::TESTS,
    opened::TESTS,
    build::TESTS,
    recipes::TESTS,
    exchanged::TESTS,
    workspaces::TESTS,
    packages::TESTS,
    speed::TESTS,
];

/// The `main` of a test program: runs the tests on an engine, or the part of a test that this
/// process was started for.
pub fn main(engine: &'static TestEngine) -> ExitCode {
    let child_process = owner::run_if_asked(engine)
        .or_else(|| images::pull_if_asked(engine))
        .or_else(|| clients::run_if_asked(engine));
    if let Some(code) = child_process {
        return code;
    }
    let arguments = Arguments::from_args();
    let tier = engine.family.tier;
    let required = is_required(tier);
    let missing_engine = engine.missing();
    if let Some(reason) = &missing_engine {
        eprintln!("not run: tests that need an engine for {tier}: {reason}");
        if required {
            eprintln!("SANDBOX_REQUIRE={tier}: an engine is required");
            return ExitCode::FAILURE;
        }
    }
    let missing_registry = registry::missing(engine);
    if let Some(reason) = &missing_registry {
        eprintln!("not run: tests that need a registry: {reason}");
        if required {
            eprintln!("SANDBOX_REQUIRE={tier}: its tests need a registry");
            return ExitCode::FAILURE;
        }
    }
    // The reason for a missing engine is printed above.
    let missing_runtime = match missing_engine {
        Some(_) => None,
        None => runtime::missing(engine),
    };
    if let Some(reason) = &missing_runtime {
        println!("NOT RUN: tests of another runtime: {reason}");
    }

    let trials = |tests: &'static [EngineTest], kind: &'static str, ignored: bool| {
        tests.iter().map(move |(name, test)| {
            Trial::test(*name, move || test(engine))
                .with_kind(kind)
                .with_ignored_flag(ignored)
        })
    };
    let no_engine = missing_engine.is_some();
    let of_contract = contract::tests().map(|(name, test)| {
        Trial::test(*name, move || test(engine))
            .with_kind(tier)
            .with_ignored_flag(no_engine)
    });
    let no_runtime = no_engine || missing_runtime.is_some();
    let no_registry = no_engine || missing_registry.is_some();
    let mut trials = of_contract
        .chain(
            TESTS
                .iter()
                .flat_map(|tests| trials(tests, tier, no_engine)),
        )
        .chain(trials(runtime::WITH_RUNSC, tier, no_runtime))
        .chain(trials(images::WITH_REGISTRY, "registry", no_registry))
        .chain(trials(failures::WITHOUT_ENGINE, "", false))
        .collect::<Vec<_>>();

    let unsupported = match no_engine {
        true => Vec::new(),
        false => features::unsupported_tests(engine),
    };
    let not_applicable = engine
        .not_applicable
        .iter()
        .map(|(name, reason)| (*name, (*reason).to_owned()));
    for (name, reason) in not_applicable.chain(unsupported) {
        let all = trials.len();
        trials.retain(|trial| !trial.name().starts_with(name));
        assert!(trials.len() < all, "no test {name}");
        println!("NOT RUN: {name}: {reason}");
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
