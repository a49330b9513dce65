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

use crate::finding::Standing;
use crate::probe::Probe;
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

/// Runs every probe on every target, each as a test with sandboxes of its own. What a backend admits, and what this host cannot
/// decide, is ignored with the reason, never passed.
///
/// `targets` is called once this process is the one that the suite needs: it starts itself again first, with a secret in its
/// environment.
pub fn main(targets: impl FnOnce() -> Vec<Result<Target>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let prepared = secret::start_with_one().map_err(|trouble| trouble.to_string());
    let runtime = prepared.and_then(|()| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    });
    let runtime = match runtime {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => return failed(&error),
    };
    let mut trials = Vec::new();
    for target in targets() {
        let target = match target {
            Ok(target) => target,
            Err(error) => return failed(&error.to_string()),
        };
        for probe in suite::selected(&[]) {
            let (target, runtime) = (target.clone(), Arc::clone(&runtime));
            let name = format!("[{}] {}", target.name(), probe.id);
            trials.push(Trial::ignorable_test(name, move || {
                runtime.block_on(tried(&target, probe))
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
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
