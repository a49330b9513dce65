//! Probes as tests: each is a trial of libtest-mimic, so cargo, nextest and editors see it by its
//! name, `[local] network::tcp4_host_listener`.
//!
//! In a test without a harness (`harness = false`):
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

use crate::finding::ClaimStatus;
use crate::probe::{Probe, ProbeError};
use crate::reaper::{self, Reaper};
use crate::runner::{Options, repeat, run_exactly};
use crate::target::Target;
use crate::{startup, suite};

/// Defines the `main` of a test program. Each argument is a value that implements [`IntoTarget`].
#[macro_export]
macro_rules! trials {
    ($($target:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::trials::main(|| ::std::vec![$($crate::trials::IntoTarget::into_target($target)),+])
        }
    };
}

/// An argument of [`trials!`](crate::trials!).
pub trait IntoTarget {
    /// Converts this value into a target.
    ///
    /// # Errors
    ///
    /// If the target cannot be opened.
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

/// The tiers that must be measured, separated by commas. If one is unavailable, the test program
/// fails.
const REQUIRED: &str = "SANDBOX_REQUIRE";

/// The tiers that another program measures in the same test run, separated by commas. They have no
/// trials here.
const ELSEWHERE: &str = "SANDBOX_MEASURED_ELSEWHERE";

/// Runs every probe on every target, each as a test with sandboxes of its own. A gap that the
/// backend reports, an undecided probe, and a probe of an unavailable target are ignored with the
/// reason. If the environment variable `SANDBOX_REQUIRE` names the target, an unavailable target is
/// a failure.
///
/// This process first executes itself again with a secret in its environment, and then calls
/// `targets`.
pub fn main(targets: impl FnOnce() -> Vec<Result<Target>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let (runtime, task) = match prepared() {
        Ok((runtime, task)) => (Arc::new(runtime), task),
        Err(error) => return failed(&error.to_string()),
    };
    if let Some(task) = task {
        // A target that cannot be opened has nothing to remove.
        let targets: Vec<Target> = targets().into_iter().flatten().collect();
        return match runtime.block_on(task.run(&targets)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error.to_string()),
        };
    }
    let options = TrialOptions {
        required: names_in(REQUIRED),
        elsewhere: names_in(ELSEWHERE),
        only_list: arguments.list,
    };
    match trials_of_targets(targets(), &options, &runtime) {
        Ok(trials) => {
            let trials = trials.into_iter();
            let trials = trials.map(|trial| Trial::ignorable_test(trial.name, trial.run));
            let reaper = match (!arguments.list).then(Reaper::start).transpose() {
                Ok(reaper) => reaper,
                Err(error) => return failed(&error.to_string()),
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

/// Prepares this process: executes it again if needed, and returns the task of a reaper.
fn prepared() -> Result<(Runtime, Option<reaper::ReaperTask>), ProbeError> {
    startup::reexec_with_secret()?;
    let task = reaper::ReaperTask::from_env()?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok((builder.enable_all().build()?, task))
}

/// The options of the caller and the environment.
#[derive(Debug, Default)]
struct TrialOptions {
    required: Vec<String>,
    elsewhere: Vec<String>,
    /// Lists the trials without contacting an engine.
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

/// A trial and its name.
struct PlannedTrial {
    name: String,
    run: Box<dyn FnOnce() -> Result<Completion, Failed> + Send>,
}

/// The trials, or why there can be none.
fn trials_of_targets(
    targets: Vec<Result<Target>>,
    options: &TrialOptions,
    runtime: &Arc<Runtime>,
) -> Result<Vec<PlannedTrial>, String> {
    let mut trials = Vec::new();
    for target in targets {
        let target = target.map_err(|error| error.to_string())?;
        let name = target.name();
        if options.elsewhere.iter().any(|tier| tier == name) {
            eprintln!("{name}: skipped, because {ELSEWHERE} says that another program measures it");
            continue;
        }
        let missing = match options.only_list {
            true => None,
            false => runtime.block_on(target.key()).err(),
        };
        let missing = missing.map(|error| crate::report::printable(&error.to_string()));
        if let Some(reason) = &missing {
            eprintln!("skipped every probe of {name}: {reason}");
            if options.required.iter().any(|tier| tier == name) {
                return Err(format!(
                    "{REQUIRED}={name}: this required tier cannot be measured"
                ));
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
            trials.push(PlannedTrial { name, run });
        }
    }
    Ok(trials)
}

async fn tried(target: &Target, probe: &Probe) -> Result<Completion, Failed> {
    let options = Options::default();
    let report = run_exactly(target, &options, &[probe.id])
        .await
        .map_err(|error| error.to_string())?;
    let Some(mut finding) = report.findings.into_iter().next() else {
        return Err("the probe returned no finding".into());
    };
    if matches!(finding.claim_status(), ClaimStatus::Failed(_)) {
        finding = repeat(target, &options, &finding)
            .await
            .map_err(|error| error.to_string())?;
    }
    match finding.claim_status() {
        ClaimStatus::Passed | ClaimStatus::BetterThanClaimed(_) => Ok(Completion::Completed),
        ClaimStatus::Admitted(why) | ClaimStatus::Undecided(why) => Ok(Completion::ignored_with(
            format!("{}: {}", finding.verdict, crate::report::printable(&why)),
        )),
        ClaimStatus::Failed(why) => {
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

    /// A backend whose engine is unavailable.
    struct UnavailableBackend;

    fn gone() -> Error {
        Error::unavailable("absent", "no engine listens", "start it")
    }

    #[async_trait]
    impl Backend for UnavailableBackend {
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

    fn trials(options: &TrialOptions) -> Result<Vec<PlannedTrial>, String> {
        let runtime = Arc::new(Runtime::new().expect("a runtime"));
        trials_of_targets(
            vec![Arc::new(UnavailableBackend).into_target()],
            options,
            &runtime,
        )
    }

    fn absent() -> Vec<String> {
        vec!["absent".to_owned()]
    }

    #[test]
    fn probes_of_an_unavailable_engine_are_ignored() {
        let trials = trials(&TrialOptions::default()).expect("trials");
        assert_eq!(trials.len(), suite::selected(&[]).len());
        let named = |trial: &PlannedTrial| trial.name == "[absent] network::tcp4_host_listener";
        assert!(trials.iter().any(named));
        for trial in trials {
            let reason = match (trial.run)() {
                Ok(Completion::Ignored { reason }) => reason,
                _ => panic!("{} was not ignored", trial.name),
            };
            let reason = reason.expect("a reason");
            assert!(reason.starts_with("not run: "), "{reason}");
            assert!(reason.contains("no engine listens"), "{reason}");
        }
    }

    #[test]
    fn unavailable_required_engine_is_an_error_unless_only_listing() {
        let mut options = TrialOptions {
            required: absent(),
            ..TrialOptions::default()
        };
        let Err(error) = trials(&options) else {
            panic!("no error");
        };
        assert!(error.contains("SANDBOX_REQUIRE=absent"), "{error}");
        options.only_list = true;
        assert_eq!(trials(&options).map(|trials| trials.is_empty()), Ok(false));
    }

    #[test]
    fn tier_measured_elsewhere_has_no_trials() {
        let options = TrialOptions {
            elsewhere: absent(),
            ..TrialOptions::default()
        };
        assert_eq!(trials(&options).map(|trials| trials.len()), Ok(0));
    }
}
