//! Probes as tests: each is one of libtest-mimic's trials, so that cargo, nextest and editors see it by its name,
//! `[local] network::tcp4_host_listener`.
//!
//! In a test program without a harness (`harness = false`):
//!
//! ```no_run
//! sandbox_conformance::trials!(sandbox_conformance::Target::tier("local"));
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sandbox_core::Result;
use sandbox_core::spi::Backend;
use tokio::runtime::Runtime;

use crate::finding::Standing;
use crate::probe::{Probe, Trouble};
use crate::reaper::{self, Reaper};
use crate::runner::{Options, repeat, run_exactly};
use crate::target::Target;
use crate::{secret, suite};

/// Makes a test program of backends: whatever turns into a [`Target`] ([`IntoTarget`]), separated by commas.
#[macro_export]
macro_rules! trials {
    ($($target:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::trials::main(|| ::std::vec![$($crate::trials::IntoTarget::into_target($target)),+])
        }
    };
}

/// What [`trials!`](crate::trials!) takes.
pub trait IntoTarget {
    /// The target.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    fn into_target(self) -> Result<Target>;
}

impl IntoTarget for Target {
    fn into_target(self) -> Result<Target> {
        Ok(self)
    }
}

impl IntoTarget for Result<Target> {
    fn into_target(self) -> Result<Target> {
        self
    }
}

impl<B: Backend + 'static> IntoTarget for Arc<B> {
    fn into_target(self) -> Result<Target> {
        Ok(Target::backend(self))
    }
}

/// Tiers that cannot be left out, separated by commas: where one of them is not there, the test program fails.
const REQUIRED: &str = "SANDBOX_REQUIRE";

/// Tiers that a program which runs many tests measures by itself, separated by commas: no trial of them is made here, so that
/// an engine is not attacked twice.
const ELSEWHERE: &str = "SANDBOX_MEASURED_ELSEWHERE";

/// Runs every probe on every target, each as a test with sandboxes of its own. What a backend admits, and what this host cannot
/// decide, is ignored with the reason, never passed. So is every probe where a target is not there; the environment variable
/// `SANDBOX_REQUIRE` with its name, among others between commas, makes that a failure.
///
/// `targets` is called once this process is the one that the suite needs: it starts itself again first, with a secret in its
/// environment.
pub fn main(targets: impl FnOnce() -> Vec<Result<Target>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let (runtime, order) = match prepared() {
        Ok((runtime, order)) => (Arc::new(runtime), order),
        Err(trouble) => return failed(&trouble.to_string()),
    };
    if let Some(order) = order {
        // Who cannot be opened has nothing that could be removed.
        let targets: Vec<Target> = targets().into_iter().flatten().collect();
        return match runtime.block_on(order.carry_out(&targets)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(trouble) => failed(&trouble.to_string()),
        };
    }
    let wish = Wish {
        required: names_in(REQUIRED),
        elsewhere: names_in(ELSEWHERE),
        only_list: arguments.list,
    };
    match of_targets(targets(), &wish, &runtime) {
        Ok(trials) => {
            let trials = trials.into_iter();
            let trials = trials.map(|trial| Trial::ignorable_test(trial.name, trial.run));
            let reaper = match (!arguments.list).then(Reaper::start).transpose() {
                Ok(reaper) => reaper,
                Err(trouble) => return failed(&trouble.to_string()),
            };
            let code = libtest_mimic::run(&arguments, trials.collect()).exit_code();
            if let Some(reaper) = reaper {
                reaper.dismiss();
            }
            code
        }
        Err(error) => failed(&error),
    }
}

/// This process as the suite needs it, and the order that it was given.
fn prepared() -> Result<(Runtime, Option<reaper::Order>), Trouble> {
    secret::start_with_one()?;
    let order = reaper::Order::given()?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok((builder.enable_all().build()?, order))
}

/// What the caller and the environment want of the trials.
#[derive(Debug, Default)]
struct Wish {
    required: Vec<String>,
    elsewhere: Vec<String>,
    /// No engine has to be there to name its trials.
    only_list: bool,
}

fn names_in(variable: &str) -> Vec<String> {
    let list = std::env::var(variable).unwrap_or_default();
    let names = list.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

/// A trial by its name.
struct Planned {
    name: String,
    run: Box<dyn FnOnce() -> Result<Completion, Failed> + Send>,
}

/// The trials, or why there can be none.
fn of_targets(
    targets: Vec<Result<Target>>,
    wish: &Wish,
    runtime: &Arc<Runtime>,
) -> Result<Vec<Planned>, String> {
    let mut trials = Vec::new();
    for target in targets {
        let target = target.map_err(|error| error.to_string())?;
        let name = target.name();
        if wish.elsewhere.iter().any(|tier| tier == name) {
            eprintln!("{name}: measured by whoever set {ELSEWHERE}, not here");
            continue;
        }
        let missing = match wish.only_list {
            true => None,
            false => runtime.block_on(target.key()).err(),
        };
        let missing = missing.map(|error| crate::report::printable(&error.to_string()));
        if let Some(reason) = &missing {
            eprintln!("not run: every probe of {name}: {reason}");
            if wish.required.iter().any(|tier| tier == name) {
                return Err(format!("{REQUIRED}={name}: it is required"));
            }
        }
        for probe in suite::selected(&[]) {
            let (target, runtime) = (target.clone(), Arc::clone(runtime));
            let missing = missing.clone();
            let name = format!("[{}] {}", target.name(), probe.id);
            let run = Box::new(move || match missing {
                Some(reason) => Ok(Completion::ignored_with(format!("not run: {reason}"))),
                None => runtime.block_on(tried(&target, probe)),
            });
            trials.push(Planned { name, run });
        }
    }
    Ok(trials)
}

async fn tried(target: &Target, probe: &Probe) -> Result<Completion, Failed> {
    let options = Options::default();
    let report = run_exactly(target, &options, &[probe.id])
        .await
        .map_err(|trouble| trouble.to_string())?;
    let Some(mut finding) = report.findings.into_iter().next() else {
        return Err("the probe has found nothing".into());
    };
    if matches!(finding.standing(), Standing::Failed(_)) {
        finding = repeat(target, &options, &finding)
            .await
            .map_err(|trouble| trouble.to_string())?;
    }
    match finding.standing() {
        Standing::Passed | Standing::Modest(_) => Ok(Completion::Completed),
        Standing::Admitted(why) | Standing::Open(why) => Ok(Completion::ignored_with(format!(
            "{}: {}",
            finding.verdict,
            crate::report::printable(&why)
        ))),
        Standing::Failed(why) => {
            Err(format!("{}: {}", finding.verdict, crate::report::printable(&why)).into())
        }
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("error: {}", crate::report::printable(why));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use sandbox_core::spi::{Finding, Instance};
    use sandbox_core::{EnforcementReport, Error, Plan};

    use super::*;

    /// A backend whose engine is not there.
    struct Absent;

    fn gone() -> Error {
        Error::unavailable("absent", "nobody listens", "start it")
    }

    #[async_trait]
    impl Backend for Absent {
        fn name(&self) -> &str {
            "absent"
        }

        async fn assess(&self, _: &Plan) -> Result<EnforcementReport> {
            Err(gone())
        }

        async fn create(&self, _: &Plan) -> Result<Box<dyn Instance>> {
            Err(gone())
        }

        async fn diagnose(&self) -> Vec<Finding> {
            Vec::new()
        }

        async fn profile(&self) -> Result<Vec<(String, String)>> {
            Err(gone())
        }
    }

    fn trials(wish: &Wish) -> Result<Vec<Planned>, String> {
        let runtime = Arc::new(Runtime::new().expect("a runtime"));
        of_targets(vec![Arc::new(Absent).into_target()], wish, &runtime)
    }

    fn absent() -> Vec<String> {
        vec!["absent".to_owned()]
    }

    #[test]
    fn each_probe_of_an_engine_that_is_not_there_is_ignored() {
        let trials = trials(&Wish::default()).expect("trials");
        assert_eq!(trials.len(), suite::selected(&[]).len());
        let named = |trial: &Planned| trial.name == "[absent] network::tcp4_host_listener";
        assert!(trials.iter().any(named));
        for trial in trials {
            let reason = match (trial.run)() {
                Ok(Completion::Ignored { reason }) => reason,
                _ => panic!("{} was not ignored", trial.name),
            };
            let reason = reason.expect("a reason");
            assert!(reason.starts_with("not run: "), "{reason}");
            assert!(reason.contains("nobody listens"), "{reason}");
        }
    }

    #[test]
    fn it_is_fatal_where_it_is_required_and_something_runs() {
        let mut wish = Wish {
            required: absent(),
            ..Wish::default()
        };
        let Err(error) = trials(&wish) else {
            panic!("no error");
        };
        assert!(error.contains("SANDBOX_REQUIRE=absent"), "{error}");
        wish.only_list = true;
        assert_eq!(trials(&wish).map(|trials| trials.is_empty()), Ok(false));
    }

    #[test]
    fn what_is_measured_elsewhere_has_no_trials() {
        let wish = Wish {
            elsewhere: absent(),
            ..Wish::default()
        };
        assert_eq!(trials(&wish).map(|trials| trials.len()), Ok(0));
    }
}
