//! `cargo xtask bench`: builds and runs `benches/backends`.

use std::env;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use crate::cargo::{SCOPE, Workspace};
use crate::engines;
use crate::failure::Failure;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct BenchArguments {
    /// Run each workload once, from a development build, by default on the local backend alone
    #[arg(long, conflicts_with = "iterations")]
    smoke: bool,
    /// Rounds to measure; slow workloads run in every fifth round or less often
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Backends to measure, separated by commas: local, docker, podman, k8s
    #[arg(long, value_name = "BACKEND", value_delimiter = ',')]
    only: Vec<String>,
    /// A built program `sandbox`; its commands are measured beside bwrap and the engines' commands
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// A Python interpreter; llm-sandbox is measured if this interpreter can import it [default: python3]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// The image of every container and pod; an interactive session of llm-sandbox needs one with IPython
    /// and pip [default: python:3.11-slim]
    #[arg(long)]
    image: Option<String>,
    /// Modules that sessions import before their cells, separated by commas [default: json]
    #[arg(long, value_name = "MODULE", value_delimiter = ',')]
    modules: Vec<String>,
}

/// Prints a table on stdout. Exits with 1 if a workload failed that can run on this machine;
/// a slow workload is not a failure.
///
/// # Errors
///
/// If cargo cannot be started.
pub fn run(arguments: &BenchArguments) -> Result<ExitCode, Failure> {
    let mut cargo = Workspace::find()?.cargo();
    cargo.env("KUBECONFIG", engines::kubeconfig()?);
    cargo.arg("bench").args(SCOPE).args(["--bench", "backends"]);
    if arguments.smoke {
        cargo.args(["--profile", "dev"]);
    }
    // The benchmark has the same options, so it gets the words behind `cargo xtask bench`.
    cargo.arg("--").args(env::args_os().skip(2));
    engines::finish(cargo.stdin(Stdio::null()))
}
