//! Tests of a backend on a running engine with Docker's API. They need the images of `cargo xtask
//! images`.
//!
//! Without an engine, the tests are listed as ignored, with the reason. If `SANDBOX_REQUIRE` names
//! the tier, that is a failure.

mod adopt;
mod build;
mod clients;
mod commit;
mod conda;
mod containers;
mod counter;
mod detached;
mod egress;
mod exchanged;
mod failures;
mod features;
mod hardening;
mod images;
mod inherited;
mod libraries;
mod mounts;
mod opened;
mod owner;
mod package_cache;
mod packages;
mod recipes;
mod registry;
mod runtime;
mod speed;
mod test_engine;
mod users;
mod volume;
mod workspaces;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::contract::{self, TestResult};
use crate::requirements::fail_if_required;
use crate::trials::{ignore, ignored_if};

pub use test_engine::TestEngine;

/// A test's name and its function.
type EngineTest = (&'static str, fn(&'static TestEngine) -> TestResult);

/// The tests that need only an engine and the images.
const TESTS: &[&[EngineTest]] = &[
    containers::TESTS,
    hardening::TESTS,
    inherited::TESTS,
    detached::TESTS,
    egress::TESTS,
    clients::TESTS,
    conda::TESTS,
    users::TESTS,
    volume::TESTS,
    failures::WITH_ENGINE,
    images::TESTS,
    adopt::TESTS,
    commit::TESTS,
    opened::TESTS,
    build::TESTS,
    recipes::TESTS,
    exchanged::TESTS,
    workspaces::TESTS,
    libraries::TESTS,
    mounts::TESTS,
    packages::TESTS,
    speed::TESTS,
];

/// The `main` of a test program: runs the tests on an engine, or the part of a test that this
/// process was started for.
pub fn main(engine: &'static TestEngine) -> ExitCode {
    let child_process = owner::run_if_asked(engine)
        .or_else(|| images::pull_if_asked(engine))
        .or_else(|| clients::run_if_asked(engine))
        .or_else(|| contract::egress::run_owner_if_asked(engine));
    if let Some(code) = child_process {
        return code;
    }
    let arguments = Arguments::from_args();
    let tier = engine.family.tier;
    let no_engine = engine.missing();
    let no_registry = registry::missing(engine);
    for missing in [&no_engine, &no_registry] {
        if let Some(code) = fail_if_required(tier, missing.as_deref()) {
            return code;
        }
    }
    let mut reasons = Vec::new();
    let mut no_runtime = None;
    // Only an engine that answers can be asked for its features.
    if no_engine.is_none() {
        reasons.extend(features::unsupported_tests(engine));
        no_runtime = runtime::missing(engine);
        for (tests, image) in contract::OPTIONAL_IMAGES {
            reasons.extend(engine.lacks(image).map(|reason| (*tests, reason)));
        }
    }
    let not_applicable = engine.not_applicable.iter();
    reasons.extend(not_applicable.map(|(name, reason)| (*name, (*reason).to_owned())));

    let trials = |tests: &'static [EngineTest], kind: &'static str, missing: &Option<String>| {
        let missing = missing.clone();
        tests.iter().map(move |(name, test)| {
            let trial = Trial::test(*name, move || test(engine)).with_kind(kind);
            ignored_if(trial, missing.as_deref())
        })
    };
    let of_contract = contract::tests().map(|(name, test)| {
        let trial = Trial::test(*name, move || test(engine)).with_kind(tier);
        ignored_if(trial, no_engine.as_deref())
    });
    let of_egress = contract::egress::TESTS.iter().map(|(name, test)| {
        let trial = Trial::test(*name, move || test(engine)).with_kind(tier);
        ignored_if(trial, no_engine.as_deref())
    });
    let of_packages = contract::package_tests().map(|(name, test)| {
        let trial = Trial::test(*name, move || test(engine)).with_kind(tier);
        ignored_if(trial, no_engine.as_deref())
    });
    let no_runtime = no_engine.clone().or(no_runtime);
    let no_registry = no_engine.clone().or(no_registry);
    let all = of_contract
        .chain(of_egress)
        .chain(of_packages)
        .chain(
            TESTS
                .iter()
                .flat_map(|tests| trials(tests, tier, &no_engine)),
        )
        .chain(trials(runtime::WITH_RUNSC, tier, &no_runtime))
        .chain(trials(images::WITH_REGISTRY, "registry", &no_registry))
        .chain(trials(failures::WITHOUT_ENGINE, "", &None))
        .collect();
    libtest_mimic::run(&arguments, ignore(all, &reasons)).exit_code()
}
