//! A backend against a real engine of its family, with the images that `cargo xtask images` builds. Each family's crate has these
//! tests as its own: a test program with a module `family` that says which one it is, and this module beside it.
//!
//! `exec`, `folders`, `hostile`, `isolation`, `lifetime` and `limits` know nothing of an engine: a cluster's backend runs them, too, with
//! modules `family` and `engine` of its own.
//!
//! Without an engine the tests are listed as ignored, with the reason; `SANDBOX_REQUIRE` with the tier's name makes that a failure.

mod abilities;
mod adopt;
mod build;
mod clients;
mod containers;
mod counter;
mod detached;
mod engine;
mod exchanged;
mod exec;
mod failures;
mod folders;
mod hardening;
mod hostile;
mod images;
mod inherited;
mod isolation;
mod lifetime;
mod limits;
mod opened;
mod owner;
#[path = "../../../sandbox-local/tests/local/registry.rs"]
mod package_registry;
mod packages;
mod recipes;
mod registry;
mod runtime;
mod sandboxes;
mod speed;
pub mod usual;
mod volume;
mod workspaces;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::family::{FAMILY, NOT_HERE};

/// The family's tier that applies the policy.
const TIER: &str = FAMILY.tier;
/// The one that applies none.
const UNSAFE_TIER: &str = FAMILY.unsafe_tier;
/// The engine's own command.
const COMMAND: &str = FAMILY.command;

type Test = (&'static str, fn() -> Result<(), Failed>);

/// Runs the tests, or what a test starts this program for.
pub fn main() -> ExitCode {
    if let Some(code) = owner::run_if_asked() {
        return code;
    }
    if let Some(code) = images::pull_if_asked() {
        return code;
    }
    if let Some(code) = clients::run_if_asked() {
        return code;
    }
    let arguments = Arguments::from_args();
    let missing = engine::missing();
    let required = std::env::var("SANDBOX_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|name| name.trim() == TIER));
    if let Some(reason) = &missing {
        eprintln!("not run: tests that need an engine for {TIER}: {reason}");
        if required {
            eprintln!("SANDBOX_REQUIRE={TIER}: an engine is required");
            return ExitCode::FAILURE;
        }
    }
    let no_registry = registry::missing();
    if let Some(reason) = &no_registry {
        eprintln!("not run: tests that need a registry: {reason}");
        if required {
            eprintln!("SANDBOX_REQUIRE={TIER}: its tests need a registry");
            return ExitCode::FAILURE;
        }
    }
    let with_engine = [
        exec::TESTS,
        isolation::TESTS,
        containers::TESTS,
        hardening::TESTS,
        hostile::TESTS,
        limits::TESTS,
        lifetime::TESTS,
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
        folders::TESTS,
        exchanged::TESTS,
        workspaces::TESTS,
        packages::TESTS,
        speed::TESTS,
    ];
    let with_engine = with_engine.iter().copied().flatten().map(|(name, test)| {
        Trial::test(*name, *test)
            .with_kind(TIER)
            .with_ignored_flag(missing.is_some())
    });
    let with_registry = images::WITH_REGISTRY.iter().map(|(name, test)| {
        Trial::test(*name, *test)
            .with_kind("registry")
            .with_ignored_flag(missing.is_some() || no_registry.is_some())
    });
    let without = failures::WITHOUT_ENGINE
        .iter()
        .map(|(name, test)| Trial::test(*name, *test));
    // What the engine itself lacks is said above.
    let no_runsc = missing.is_none().then(runtime::missing).flatten();
    if let Some(reason) = &no_runsc {
        println!("NOT RUN: tests of another runtime: {reason}");
    }
    let with_runsc = runtime::WITH_RUNSC.iter().map(|(name, test)| {
        Trial::test(*name, *test)
            .with_kind(TIER)
            .with_ignored_flag(missing.is_some() || no_runsc.is_some())
    });
    let mut trials = with_engine
        .chain(with_runsc)
        .chain(with_registry)
        .chain(without)
        .collect::<Vec<_>>();
    let lacking = match missing {
        Some(_) => Vec::new(),
        None => abilities::lacking(),
    };
    let of_family = NOT_HERE
        .iter()
        .map(|(name, reason)| (*name, (*reason).to_owned()));
    let not_here = of_family.chain(lacking).collect::<Vec<_>>();
    for (name, reason) in &not_here {
        assert!(
            trials.iter().any(|trial| trial.name().starts_with(name)),
            "no test {name}"
        );
        println!("NOT RUN: {name}: {reason}");
    }
    trials.retain(|trial| {
        !not_here
            .iter()
            .any(|(name, _)| trial.name().starts_with(name))
    });
    libtest_mimic::run(&arguments, trials).exit_code()
}
