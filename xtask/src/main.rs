//! Tasks of the workspace: `cargo xtask TASK`.
//!
//! Each task is one module with a type of arguments and a `run` function; this file only chooses
//! between them. Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 the
//! task failed (or, for `engines status`, an engine is missing), 2 wrong usage.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod cargo;
mod conformance;
mod engines;
mod failure;
mod guest;
mod interrupt;
mod matrix;
mod test;

/// Tasks of the sandbox workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct XtaskArguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Start, stop or describe the engines that tests need: ci/engines.sh
    Engines(engines::ScriptArguments),
    /// Build the test images without any registry, and import them: ci/images.sh
    Images(engines::ScriptArguments),
    /// Compare the speed of sandboxes with similar tools, in a release build
    Bench(bench::BenchArguments),
    /// Attack the backends, and report which attacks are denied
    Conformance(engines::ScriptArguments),
    /// Run the local backend in an emulated machine with systemd and cgroup v2: ci/guest.sh
    Guest(engines::ScriptArguments),
    /// Compare the committed matrix with a new measurement, or write it
    Matrix(matrix::MeasureArguments),
    /// Run all checks and tests; --quick takes minutes, --full is the nightly run
    Test(test::TestArguments),
    /// Run one program, and fail if it leaves processes behind
    #[command(hide = true)]
    Supervise(test::supervise::SuperviseArguments),
}

fn main() -> ExitCode {
    let result = match XtaskArguments::parse().task {
        Task::Engines(arguments) => engines::run("engines.sh", &arguments),
        Task::Images(arguments) => engines::run("images.sh", &arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Conformance(arguments) => conformance::run(&arguments),
        Task::Guest(arguments) => guest::run(&arguments),
        Task::Matrix(arguments) => matrix::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Supervise(arguments) => test::supervise::run(&arguments),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}
