//! The suite, ended in the middle: what it leaves, on each tier.
//!
//! Without an engine nothing is run on it, and that is said; `SANDBOX_REQUIRE` with the tier's name makes that a failure.

mod control;
mod remains;
mod suite;
mod tier;

use std::thread;
use std::time::Duration;

use remains::Remains;
use suite::{Moment, Suite};
use tier::Tier;

/// How long anything of a killed suite may be there. A machine with nothing else to do needs a tenth of it.
const BOUND: Duration = Duration::from_secs(30);

/// The same for one that has cleaned up before it ended: what the kernel takes apart after it.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// How often a detached sandbox may be missed that is there for a moment.
const ATTEMPTS: usize = 10;

/// As programs say that they were interrupted.
const INTERRUPTED: i32 = 130;

/// Each signal at each moment, all at the same time.
const INTERRUPTS: [(&str, Moment); 5] = [
    ("-INT", Moment::Grounds),
    ("-TERM", Moment::Control),
    ("-TERM", Moment::Attached),
    ("-INT", Moment::Detached),
    ("-HUP", Moment::AfterDetached(400)),
];

/// A kill at each of these moments, all at the same time.
const KILLS: [Moment; 6] = [
    Moment::Grounds,
    Moment::Control,
    Moment::Attached,
    Moment::Detached,
    Moment::AfterDetached(150),
    Moment::AfterDetached(700),
];

fn at_once<T: Sync>(moments: &[T], act: impl Fn(&T) + Sync) {
    thread::scope(|scope| {
        for moment in moments {
            scope.spawn(|| act(moment));
        }
    });
}

/// Interrupted, it takes everything along before it ends, also what was to outlive its creator.
fn interrupted(tier: &Tier) {
    at_once(&INTERRUPTS, |(signal, moment)| {
        let mut suite = Suite::start(tier);
        suite.wait_for(*moment);
        let remains = Remains::of(&suite);
        suite.send(signal);
        assert_eq!(
            suite.end().code(),
            Some(INTERRUPTED),
            "{signal} at {moment:?}"
        );
        let told = format!("{} interrupted by {signal} at {moment:?}", tier.name);
        // They would end by themselves in a moment.
        assert_eq!(remains::programs(suite.process().pid), [""; 0], "{told}");
        remains.assert_gone(AFTERWARDS, &told);
    });
}

/// Who does not wait until everything is removed leaves that to the reaper.
fn interrupted_twice(tier: &Tier) {
    let mut suite = Suite::start(tier);
    suite.wait_for(Moment::Detached);
    let remains = Remains::of(&suite);
    suite.send("-INT");
    suite.wait_for_word();
    suite.send("-INT");
    assert_eq!(suite.end().code(), Some(INTERRUPTED));
    remains.assert_gone(BOUND, &format!("{} interrupted twice", tier.name));
}

/// Killed, it leaves nothing either: its reaper does what it cannot do any more.
fn killed(tier: &Tier) {
    at_once(&KILLS, |moment| {
        let mut suite = Suite::start(tier);
        suite.wait_for(*moment);
        let remains = Remains::of(&suite);
        suite.send("-KILL");
        assert_eq!(suite.end().code(), None, "{moment:?}");
        remains.assert_gone(BOUND, &format!("{} killed at {moment:?}", tier.name));
    });
}

/// Killed together with its reaper, it leaves what was to outlive it, and the next run removes that.
fn killed_with_its_reaper(tier: &Tier) {
    for _ in 0..ATTEMPTS {
        let mut suite = Suite::start(tier);
        suite.wait_for(Moment::Detached);
        let remains = Remains::of(&suite);
        suite.kill_reaper();
        suite.send("-KILL");
        assert_eq!(suite.end().code(), None);
        if tier.detached(suite.process()).is_empty() {
            // It had just been removed, or not yet been handed over, and ends with its creator then.
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
            fn a_suite_that_is_interrupted_leaves_nothing() {
                super::tier::$tier().iter().for_each(super::interrupted);
            }

            #[test]
            fn a_suite_that_is_interrupted_twice_leaves_nothing() {
                super::tier::$tier()
                    .iter()
                    .for_each(super::interrupted_twice);
            }

            #[test]
            fn a_suite_that_is_killed_leaves_nothing() {
                super::tier::$tier().iter().for_each(super::killed);
            }

            #[test]
            fn what_is_left_would_be_seen() {
                super::tier::$tier().iter().for_each(super::control::seen);
            }

            #[test]
            fn what_its_reaper_could_not_remove_goes_with_the_next_run() {
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
fn a_suite_that_the_command_started_leaves_nothing() {
    tier::local().iter().for_each(|tier| {
        let Some(mut suite) = Suite::start_by_command(tier) else {
            return;
        };
        suite.wait_for(Moment::Detached);
        let remains = Remains::of(&suite);
        suite.send("-INT");
        assert_eq!(suite.end().code(), Some(INTERRUPTED));
        remains.assert_gone(AFTERWARDS, "sandbox conformance");
    });
}

#[cfg(feature = "docker")]
tests!(docker);

#[cfg(feature = "podman")]
tests!(podman);
