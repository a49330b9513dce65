//! Measures sandboxes beside their rivals: `sandbox-bench`, best called as `cargo xtask bench`.
//!
//! What is compared is measured in one run, in turns (A B C A B C …), so that a machine that gets
//! slower meanwhile slows all of it. Each operation is timed within a *worker*, a process of this
//! same program that has one kind of runtime and holds a given amount of memory; the driver tells
//! the workers in turn what to do. Numbers are reported and never judged.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod case;
mod driver;
mod failure;
mod machine;
mod memory;
mod operations;
mod protocol;
mod report;
mod statistics;
mod worker;

/// Rounds of a whole run: enough for a p95 out of ten values beyond it.
const ROUNDS: u32 = 200;
/// Rounds that show that everything still works.
const SMOKE_ROUNDS: u32 = 5;

/// Measures sandboxes beside their rivals, in turns, in one run.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    worker: Option<Role>,
    /// Only as many rounds as show that everything works
    #[arg(long, conflicts_with = "iterations")]
    smoke: bool,
    /// Rounds; expensive operations take part in every tenth or so
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Writes everything as JSON to this file, whose folder is made
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only what belongs to these, separated by commas: local, docker, podman, k8s
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = ["local", "docker", "podman", "k8s"])]
    only: Vec<String>,
    #[command(flatten)]
    programs: operations::Programs,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Does operations as told on stdin, and answers on stdout
    #[command(hide = true)]
    Worker(worker::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.worker {
        Some(Role::Worker(arguments)) => worker::run(arguments).map(|()| ExitCode::SUCCESS),
        None => measure(&arguments),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}

/// Exits with 1 when an operation failed that should have worked here.
fn measure(arguments: &Arguments) -> failure::Result<ExitCode> {
    if cfg!(debug_assertions) {
        eprintln!("warning: not a release build, the numbers mean little");
    }
    // Asked before the run, which is a load of its own.
    let machine = machine::Machine::this();
    if machine.is_busy() {
        eprintln!(
            "warning: the machine is busy (load {}): expect noise",
            machine.load
        );
    }
    let rounds = arguments.iterations.unwrap_or(if arguments.smoke {
        SMOKE_ROUNDS
    } else {
        ROUNDS
    });
    let run = driver::run(rounds, &arguments.only, &arguments.programs)?;
    let report = report::Report::new(machine, rounds, &run);
    if let Some(path) = &arguments.json {
        report.write_json(path)?;
        eprintln!("written to {}", path.display());
    }
    print!("{report}");
    Ok(if report.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
