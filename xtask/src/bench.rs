//! `cargo xtask bench`: builds the benchmark and what it measures, and runs it.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::cargo::{Profile, Workspace};
use crate::engines;
use crate::failure::{Context, Result};

mod python_client;

/// The program that measures.
const BENCH: &str = "sandbox-bench";
/// The program that is measured.
const COMMAND: &str = "sandbox";

/// How long to measure, and where the numbers go.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only as many rounds as show that everything works, with programs that are not optimized
    #[arg(long, conflicts_with = "iterations")]
    smoke: bool,
    /// Rounds; expensive operations take part in every tenth or so
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Only what belongs to these, separated by commas: local, docker, podman, k8s
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the JSON goes, instead of `bench/latest.json` in the target folder
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Prints a table on stdout and writes JSON. Exits with 1 when something that should work here did
/// not; how long it took is never a reason.
///
/// # Errors
/// When the programs cannot be built or started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    // To see that everything works, the programs that tests use will do; what they measure says nothing of speed.
    let profile = if arguments.smoke {
        Profile::Dev
    } else {
        Profile::Release
    };
    let programs = workspace.build_programs(profile)?;
    let mut bench = Command::new(programs.file(BENCH)?);
    let json = arguments
        .json
        .clone()
        .unwrap_or_else(|| workspace.target.join("bench/latest.json"));
    bench
        .env("KUBECONFIG", engines::kubeconfig()?)
        .arg("--sandbox")
        .arg(programs.file(COMMAND)?)
        .arg("--json")
        .arg(json);
    if !arguments.only.is_empty() {
        bench.args(["--only", &arguments.only.join(",")]);
    }
    if arguments.only.is_empty() || arguments.only.iter().any(|group| group == "docker") {
        match python_client::find_or_make() {
            Ok(python) => {
                bench.arg("--python-client").arg(python);
            }
            // The benchmark says as well that it was not measured.
            Err(failure) => eprintln!("NOT RUN: the Python library beside ours: {failure}"),
        }
    }
    if arguments.smoke {
        bench.arg("--smoke");
    }
    if let Some(iterations) = arguments.iterations {
        bench.args(["--iterations", &iterations.to_string()]);
    }
    let status = bench
        .stdin(Stdio::null())
        .status()
        .context(|| "cannot start the benchmark".to_owned())?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
