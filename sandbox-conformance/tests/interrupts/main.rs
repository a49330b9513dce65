//! Interrupts the suite on each tier and checks that nothing is left.
//!
//! Without an engine, its tests print that they are skipped. If `SANDBOX_REQUIRE` names the tier,
//! they fail.

mod control;
mod leftovers;
mod suite;
mod tier;

use std::thread;
use std::time::Duration;

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

macro_rules! tests {
    ($tier:ident) => {
        mod $tier {
            #[test]
            fn interrupted_suite_leaves_nothing() {
                super::tier::$tier().iter().for_each(super::interrupted);
            }

            #[test]
            fn twice_interrupted_suite_leaves_nothing() {
                super::tier::$tier()
                    .iter()
                    .for_each(super::interrupted_twice);
            }

            #[test]
            fn killed_suite_leaves_nothing() {
                super::tier::$tier().iter().for_each(super::killed);
            }

            #[test]
            fn planted_leftovers_are_found() {
                super::tier::$tier().iter().for_each(super::control::seen);
            }

            #[test]
            fn next_run_removes_leftovers_of_a_killed_reaper() {
                super::tier::$tier()
                    .iter()
                    .for_each(super::killed_with_its_reaper);
            }
        }
    };
}

#[cfg(feature = "local")]
tests!(local);

#[cfg(feature = "local")]
#[test]
fn suite_started_by_the_command_leaves_nothing() {
    tier::local().iter().for_each(|tier| {
        let Some(mut suite) = Suite::start_by_command(tier) else {
            return;
        };
        suite.wait_for(InterruptPoint::Detached);
        let remains = Leftovers::of(&suite);
        suite.send("-INT");
        assert_eq!(suite.end().code(), Some(INTERRUPTED));
        remains.assert_gone(AFTERWARDS, "sandbox conformance");
    });
}

#[cfg(feature = "docker")]
tests!(docker);

#[cfg(feature = "podman")]
tests!(podman);
