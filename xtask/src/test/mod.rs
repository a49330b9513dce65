//! `cargo xtask test`: the checks and tests that must pass before a change is accepted.
//!
//! All tests are built once. Then the jobs of [`plan`] run in parallel lanes. The output of each
//! job goes to its own file, and the output of failed tests is printed again at the end. The last
//! line is the total of all jobs.

use std::ffi::OsStr;
use std::fs;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use clap::ValueEnum;
use tokio::sync::Semaphore;

use crate::cargo::{QUICK_TESTS, TESTS, Workspace};
use crate::engines;
use crate::failure::{Context, Failure};

mod job;
mod plan;
mod requirements;
mod results;
mod runner;
mod summary;
pub mod supervise;
pub mod user;

use job::{Extent, Job, Lane};
use plan::Planner;
use requirements::{Requirement, Requirements};
use summary::Summary;
use user::User;

/// What to run, and what is required.
#[derive(Debug, clap::Args)]
pub struct TestArguments {
    /// Format, clippy, unit tests, and the local backend's main tests and probes, in minutes
    #[arg(long, conflicts_with_all = ["full", "require", "engines"])]
    quick: bool,
    /// The nightly run: long tests at full size, and every probe that a mutant may change
    #[arg(long)]
    full: bool,
    /// Engines to test as well, if they run and have the test images
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ENGINE")]
    engines: Vec<Requirement>,
    /// Fail if one of these is missing; running engines get the test images
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    require: Vec<Requirement>,
    /// Run only these lanes
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LANE")]
    lane: Vec<Lane>,
    /// Run only the jobs whose names contain one of these texts
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// List the jobs, with the tests that they leave out, and run none
    #[arg(long)]
    list: bool,
}

impl TestArguments {
    fn extent(&self) -> Extent {
        match (self.quick, self.full) {
            (true, _) => Extent::Quick,
            (false, true) => Extent::Full,
            (false, false) => Extent::Commit,
        }
    }

    fn includes(&self, job: &Job) -> bool {
        let named = |text: &String| job.name.contains(text.as_str());
        (self.lane.is_empty() || self.lane.contains(&job.lane))
            && (self.only.is_empty() || self.only.iter().any(named))
    }
}

/// The name of a lane or of a requirement, as in the arguments.
fn name_of(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().to_owned())
}

/// Runs the chosen jobs and prints the summary on stdout. Exits with 1 if a job has failed.
///
/// # Errors
///
/// If the tests cannot be built, or something that is required is missing.
pub fn run(arguments: &TestArguments) -> Result<ExitCode, Failure> {
    let workspace = Workspace::find()?;
    let requirements = Requirements::check(&arguments.require, &arguments.engines)?;
    let mut summary = Summary::new(&requirements);
    eprintln!("==> build");
    let start = Instant::now();
    let built = match arguments.extent() {
        Extent::Quick => workspace.build(QUICK_TESTS)?,
        Extent::Commit | Extent::Full => workspace.build(TESTS)?,
    };
    summary.took("build", start.elapsed());
    let is_root = rustix::process::geteuid().is_root();
    let as_root = is_root && arguments.extent() != Extent::Quick && !arguments.list;
    let user = as_root.then(|| User::ordinary(&workspace, &built));
    let user = user.transpose()?;
    let owner = || User::with_account(engines::rootless_owner()?, &workspace, &built);
    let has_owner = as_root && requirements.uses(Requirement::PodmanRootless);
    let rootless = has_owner.then(owner).transpose()?;
    // A cluster that the user has for other work is used only if it is required.
    let own_kubeconfig = engines::own_kubeconfig()?;
    let kubeconfig = match requirements.requires(Requirement::Kubernetes) {
        true => engines::kubeconfig()?,
        false => own_kubeconfig.clone(),
    };
    let planner = Planner {
        workspace: &workspace,
        built: &built,
        requirements: &requirements,
        extent: arguments.extent(),
        user,
        rootless,
        owns_cluster: kubeconfig == own_kubeconfig,
        kubeconfig,
    };
    let mut jobs = planner.jobs()?;
    jobs.retain(|job| arguments.includes(job));
    if arguments.list {
        for job in &jobs {
            let arguments = job.command.get_args().map(OsStr::to_string_lossy);
            let skipped: Vec<_> = arguments.skip_while(|word| word != "--skip").collect();
            println!("{}: {} {}", name_of(&job.lane), job.name, skipped.join(" "));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let logs = workspace.target.join("xtask/logs");
    // The logs of an earlier run.
    let _ = fs::remove_dir_all(&logs);
    let mut lanes: Vec<(Lane, Vec<Job>)> = Vec::new();
    for job in jobs {
        match lanes.iter_mut().find(|(lane, _)| *lane == job.lane) {
            Some((_, jobs)) => jobs.push(job),
            None => lanes.push((job.lane, vec![job])),
        }
    }
    let shared = Mutex::new(summary);
    // With the local lane, three jobs keep two processors busy. More would leave too little of them
    // for tests that measure time. Compilers take only what those leave.
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let permits = Semaphore::new(processors);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.context(|| "cannot wait for other jobs")?;
    thread::scope(|scope| {
        for (lane, jobs) in lanes {
            let (shared, logs, permits, runtime) = (&shared, &logs, &permits, &runtime);
            scope.spawn(move || {
                let start = Instant::now();
                for job in jobs {
                    // The local lane never waits. It has the most jobs, so it would be the last to
                    // end by far if each of them waited for the long jobs of other lanes.
                    let waits = !matches!(lane, Lane::Local | Lane::Checks);
                    let permit = waits.then(|| runtime.block_on(permits.acquire()));
                    let done = runner::run(&job, logs);
                    drop(permit);
                    let mut summary = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    summary.add(done);
                }
                let mut summary = shared.lock().unwrap_or_else(PoisonError::into_inner);
                summary.took(&name_of(&lane), start.elapsed());
            });
        }
    });
    let summary = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.write(&workspace)?;
    print!("{summary}");
    Ok(match summary.failed() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
