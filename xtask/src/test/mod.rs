//! `cargo xtask test`: everything that must hold before a change is accepted.
//!
//! The steps run in the order of [`Step`] and stop at the first that fails. Nothing that could not
//! run is passed over in silence: it stands in the summary as `NOT RUN`, with the reason and what
//! to do, and never counts as passed. The last line is the sum over all test binaries.

use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;

use crate::cargo::Workspace;
use crate::failure::Result;
use crate::programs;

mod checks;
mod descendants;
mod ordinary_user;
mod requirements;
mod rootless;
mod staged;
mod suite;
mod summary;
pub mod supervise;
mod tally;
mod user_folder;
mod user_stage;

use requirements::{Requirement, Requirements};
use summary::Summary;
use tally::Tally;

/// The engines' and the cluster's tiers.
const ENGINES: [&str; 3] = ["docker", "podman", "k8s"];

/// What every run of the suite on the local tier measures: that tier, and the suite itself.
const PROVEN: [&str; 2] = ["local", "self-checks"];

/// This program, also after a step has built it anew and replaced its file.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// What to run, and what must not be missing.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Fail where one of these is missing, instead of a `NOT RUN`
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    require: Vec<Requirement>,
    /// Steps to leave out
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STEP")]
    skip: Vec<Step>,
    /// The only steps to run
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STEP")]
    only: Vec<Step>,
    /// Run the later steps also after one has failed
    #[arg(long)]
    keep_going: bool,
}

/// The steps, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Formatting, by rustfmt
    Format,
    /// Lints, by clippy; warnings are errors
    Clippy,
    /// Documentation, by rustdoc; warnings are errors
    Docs,
    /// All tests, as the user who calls this
    Tests,
    /// Where that is root: the tests that need no rights, as an ordinary user
    User,
    /// Podman without root: its tests and the conformance suite, as its user
    Rootless,
    /// The conformance suite against every backend that is here, beside the committed profiles
    Conformance,
    /// The committed profiles and the README against this suite
    Matrix,
}

impl Step {
    /// The name, as in the arguments.
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Clippy => "clippy",
            Self::Docs => "docs",
            Self::Tests => "tests",
            Self::User => "user",
            Self::Rootless => "rootless",
            Self::Conformance => "conformance",
            Self::Matrix => "matrix",
        }
    }

    /// Whether the step uses engines where there are any.
    fn uses_engines(self) -> bool {
        matches!(self, Self::Tests | Self::Rootless | Self::Conformance)
    }

    fn run(self, run: &Run<'_>) -> Result<Outcome> {
        match self {
            Self::Format => checks::format(run).map(|()| Outcome::Passed),
            Self::Clippy => checks::clippy(run).map(|()| Outcome::Passed),
            Self::Docs => checks::docs(run).map(|()| Outcome::Passed),
            Self::Tests => suite::run(run).map(Outcome::Counted),
            Self::User => ordinary_user::run(run),
            Self::Rootless => rootless::run(run),
            Self::Conformance => checks::conformance(run).map(|()| Outcome::Passed),
            Self::Matrix => checks::matrix(run).map(|()| Outcome::Passed),
        }
    }
}

/// What came of a step that is no failure of the step itself.
#[derive(Debug)]
enum Outcome {
    /// It holds.
    Passed,
    /// Tests ran; some may have failed.
    Counted(Counted),
    /// It did not run, for this reason.
    NotRun(String),
}

/// The sum of a step's test binaries, and what else was wrong with them.
#[derive(Debug)]
struct Counted {
    tally: Tally,
    trouble: Option<crate::failure::Failure>,
}

/// What every step knows.
#[derive(Debug)]
struct Run<'a> {
    workspace: &'a Workspace,
    requirements: &'a Requirements,
    /// Whether an ordinary user runs after root.
    user_follows: bool,
    /// Whether all tests run before, as the present user.
    tests_before: bool,
    /// Whether the conformance suite runs afterwards, as the present user.
    suite_follows: bool,
}

impl Run<'_> {
    /// What the step of all tests leaves to others: the engines' tiers are always measured by steps of their own, which compare them
    /// with the committed profiles.
    fn measured_after_tests(&self) -> Vec<&'static str> {
        let mut elsewhere = ENGINES.to_vec();
        if self.suite_follows {
            elsewhere.extend(PROVEN);
        }
        elsewhere
    }
}

/// Runs the chosen steps and prints the summary on stdout; exits with 1 when a step has failed.
///
/// # Errors
/// When the workspace cannot be found, or something that is required is missing.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let chosen = |step: &Step| {
        !arguments.skip.contains(step)
            && (arguments.only.is_empty() || arguments.only.contains(step))
    };
    let steps = Step::value_variants();
    let mut summary = Summary::default();
    let uses_engines = steps.iter().any(|step| chosen(step) && step.uses_engines());
    let requirements = Requirements::find(&arguments.require, uses_engines, &mut summary)?;
    let run = Run {
        workspace: &workspace,
        requirements: &requirements,
        user_follows: programs::is_root() && chosen(&Step::User),
        tests_before: chosen(&Step::Tests),
        suite_follows: chosen(&Step::Conformance),
    };
    let mut stopped = false;
    for step in steps {
        let name = step.name();
        if !chosen(step) {
            summary.not_run(name, "left out by --skip or --only");
        } else if stopped {
            summary.not_run(
                name,
                "an earlier step failed (--keep-going runs it all the same)",
            );
        } else {
            eprintln!("\n==> {name}");
            let begin = Instant::now();
            let outcome = step.run(&run);
            let good = summary.step(name, outcome, begin.elapsed());
            stopped = !good && !arguments.keep_going;
        }
    }
    summary.write(&workspace)?;
    print!("{summary}");
    Ok(if summary.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
