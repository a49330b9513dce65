//! Test programs with tests that a host may not be able to run. Such a test is listed as ignored,
//! and its kind is the reason.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test's name and its function, which panics if the test fails.
pub type NamedTest = (&'static str, fn());

/// The [`NamedTest`]s of some functions. Each has its function's path as its name.
#[macro_export]
macro_rules! named_tests {
    ($($test:path),* $(,)?) => {
        &[$((stringify!($test), $test as fn())),*]
    };
}

/// Runs those of the tests that the program's arguments select. Each group of tests comes with the
/// reason why it cannot run here, or `None`.
pub fn main(groups: &[(Option<&str>, &[NamedTest])]) -> ExitCode {
    let trials = groups.iter().flat_map(|(missing, tests)| {
        tests.iter().map(|(name, test)| {
            let test = *test;
            let trial = Trial::test(*name, move || {
                test();
                Ok(())
            });
            ignored_if(trial, *missing)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The trial, ignored if there is a reason why it cannot run.
pub fn ignored_if(trial: Trial, missing: Option<&str>) -> Trial {
    match missing {
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
        None => trial,
    }
}

/// The trials, of which those are ignored whose names start with a prefix in `reasons`.
///
/// # Panics
///
/// If no trial's name starts with one of the prefixes.
pub fn ignore<P: AsRef<str>, R: AsRef<str>>(trials: Vec<Trial>, reasons: &[(P, R)]) -> Vec<Trial> {
    for (prefix, _) in reasons {
        let prefix = prefix.as_ref();
        let is_test = trials.iter().any(|trial| trial.name().starts_with(prefix));
        assert!(is_test, "no test's name starts with {prefix}");
    }
    let ignored = trials.into_iter().map(|trial| {
        let reason = reasons
            .iter()
            .find(|(prefix, _)| trial.name().starts_with(prefix.as_ref()))
            .map(|(_, reason)| reason.as_ref());
        ignored_if(trial, reason)
    });
    ignored.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of_ignored(trials: &[Trial]) -> Vec<(&str, &str)> {
        let ignored = trials.iter().filter(|trial| trial.has_ignored_flag());
        ignored.map(|trial| (trial.name(), trial.kind())).collect()
    }

    #[test]
    fn trials_with_the_prefix_are_ignored_with_the_reason() {
        let trials = ["a::one", "a::two", "b::one"].map(|name| Trial::test(name, || Ok(())));
        let trials = ignore(trials.into(), &[("a::", "needs root")]);
        assert_eq!(
            names_of_ignored(&trials),
            [("a::one", "needs root"), ("a::two", "needs root")]
        );
    }

    #[test]
    #[should_panic(expected = "no test's name starts with c::")]
    fn prefix_without_a_test_is_refused() {
        ignore(
            vec![Trial::test("a::one", || Ok(()))],
            &[("c::", "needs root")],
        );
    }
}
