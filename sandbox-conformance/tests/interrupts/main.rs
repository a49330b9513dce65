//! Interrupts the suite on each tier and checks that nothing is left.
//!
//! Without an engine, its tests are ignored. If `SANDBOX_REQUIRE` names the tier, they fail.

mod control;
mod leftovers;
mod suite;
mod tier;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use sandbox_testing::{requirements::fail_if_required, trials::ignored_if};

use leftovers::Leftovers;
use suite::{InterruptPoint, Suite};
use tier::Tier;

/// How long leftovers of a killed suite may exist. An idle machine needs a tenth of this time.
const BOUND: Duration = Duration::from_secs(30);

/// The same after a suite that cleaned up: the time that the kernel needs afterwards.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// How often the short-lived detached sandbox may be missed.
const ATTEMPTS: usize = 10;

/// The exit code of an interrupted program.
const INTERRUPTED: i32 = 130;

/// Each signal at each point, concurrently.
const INTERRUPTS: [(&str, InterruptPoint); 5] = [
    ("-INT", InterruptPoint::HostFixture),
    ("-TERM", InterruptPoint::Control),
    ("-TERM", InterruptPoint::Attached),
    ("-INT", InterruptPoint::Detached),
    ("-HUP", InterruptPoint::AfterDetached(400)),
];

/// A kill at each of these points, concurrently.
const KILLS: [InterruptPoint; 6] = [
    InterruptPoint::HostFixture,
    InterruptPoint::Control,
    InterruptPoint::Attached,
    InterruptPoint::Detached,
    InterruptPoint::AfterDetached(150),
    InterruptPoint::AfterDetached(700),
];

fn concurrently<T: Sync>(points: &[T], act: impl Fn(&T) + Sync) {
    thread::scope(|scope| {
        for point in points {
            scope.spawn(|| act(point));
        }
    });
}

/// An interrupted suite removes everything before it ends, detached sandboxes included.
fn interrupted(tier: &Tier) {
    concurrently(&INTERRUPTS, |(signal, point)| {
        let mut suite = Suite::start(tier);
        suite.wait_for(*point);
        let remains = Leftovers::of(&suite);
        suite.send(signal);
        assert_eq!(
            suite.end().code(),
            Some(INTERRUPTED),
            "{signal} at {point:?}"
        );
        let label = format!("{} interrupted by {signal} at {point:?}", tier.name);
        // These would end by themselves soon.
        assert_eq!(leftovers::programs(suite.process().pid), [""; 0], "{label}");
        remains.assert_gone(AFTERWARDS, &label);
    });
}

/// A suite that is interrupted twice leaves the cleanup to the reaper.
fn interrupted_twice(tier: &Tier) {
    let mut suite = Suite::start(tier);
    suite.wait_for(InterruptPoint::Detached);
    let remains = Leftovers::of(&suite);
    suite.send("-INT");
    suite.wait_for_word();
    suite.send("-INT");
    assert_eq!(suite.end().code(), Some(INTERRUPTED));
    remains.assert_gone(BOUND, &format!("{} interrupted twice", tier.name));
}

/// The reaper of a killed suite removes everything.
fn killed(tier: &Tier) {
    concurrently(&KILLS, |point| {
        let mut suite = Suite::start(tier);
        suite.wait_for(*point);
        let remains = Leftovers::of(&suite);
        suite.send("-KILL");
        assert_eq!(suite.end().code(), None, "{point:?}");
        remains.assert_gone(BOUND, &format!("{} killed at {point:?}", tier.name));
    });
}

/// If the suite and its reaper are killed, detached sandboxes stay until the next run removes them.
fn killed_with_its_reaper(tier: &Tier) {
    for _ in 0..ATTEMPTS {
        let mut suite = Suite::start(tier);
        suite.wait_for(InterruptPoint::Detached);
        let remains = Leftovers::of(&suite);
        suite.kill_reaper();
        suite.send("-KILL");
        assert_eq!(suite.end().code(), None);
        if tier.detached(suite.process()).is_empty() {
            // The sandbox had just been removed, or was not detached yet and ends with its creator.
            continue;
        }
        Suite::next(tier);
        remains.assert_gone(BOUND, &format!("{} after the next run", tier.name));
        return;
    }
    panic!("no detached sandbox outlived its suite, so this test shows nothing");
}

/// A test's name and its function.
type TierTest = (&'static str, fn(&Tier));

/// The tests of each tier.
const TESTS: [TierTest; 5] = [
    ("interrupted_suite_leaves_nothing", interrupted),
    ("twice_interrupted_suite_leaves_nothing", interrupted_twice),
    ("killed_suite_leaves_nothing", killed),
    ("planted_leftovers_are_found", control::seen),
    (
        "next_run_removes_leftovers_of_a_killed_reaper",
        killed_with_its_reaper,
    ),
];

/// The same, for a user who makes mounts and control groups.
const ROOT_TESTS: [TierTest; 1] = [(
    "planted_mounts_and_groups_are_found",
    control::mounts_and_groups_seen,
)];

/// The same, for the local tier.
const COMMAND_TESTS: [TierTest; 1] = [(
    "suite_started_by_the_command_leaves_nothing",
    started_by_the_command,
)];

fn started_by_the_command(tier: &Tier) {
    let mut suite = Suite::start_by_command(tier);
    suite.wait_for(InterruptPoint::Detached);
    let remains = Leftovers::of(&suite);
    suite.send("-INT");
    assert_eq!(suite.end().code(), Some(INTERRUPTED));
    remains.assert_gone(AFTERWARDS, "sandbox conformance");
}

/// These tests on this tier, ignored if there is a reason why they cannot run.
fn trials_of(tier: &Arc<Tier>, missing: Option<&str>, tests: &[TierTest]) -> Vec<Trial> {
    let trials = tests.iter().map(|(name, test)| {
        let (tier, test) = (Arc::clone(tier), *test);
        let trial = Trial::test(format!("{}::{name}", tier.name), move || {
            test(&tier);
            Ok(())
        });
        ignored_if(trial, missing)
    });
    trials.collect()
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for tier in tier::all() {
        let missing = tier.missing();
        if let Some(code) = fail_if_required(tier.name, missing.as_deref()) {
            return code;
        }
        let tier = Arc::new(tier);
        trials.extend(trials_of(&tier, missing.as_deref(), &TESTS));
        let not_root = missing.or_else(control::missing);
        trials.extend(trials_of(&tier, not_root.as_deref(), &ROOT_TESTS));
        if tier.name == "local" {
            let no_command = suite::missing_command();
            trials.extend(trials_of(&tier, no_command.as_deref(), &COMMAND_TESTS));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
