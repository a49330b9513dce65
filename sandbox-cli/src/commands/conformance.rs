//! `sandbox conformance`: starts the program of the conformance suite.
//!
//! The suite is a separate program: a command that runs untrusted code should not contain
//! attacks, or the secret that the suite puts into its environment for them to find.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::command_error::{CommandError, Outcome};

/// The suite's program, beside this one or in the search path.
const PROGRAM: &str = "sandbox-conformance";

/// The options of `conformance`.
#[derive(Debug, Args)]
pub struct ConformanceArguments {
    /// Tier to test (repeatable) [default: every tier that applies a policy]
    #[arg(short, long, value_name = "TIER")]
    backend: Vec<String>,

    /// Options of sandbox-conformance, after --
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

/// Runs the subcommand: becomes the suite.
pub fn run(arguments: &ConformanceArguments) -> Outcome {
    let mut command = Command::new(program());
    for tier in &arguments.backend {
        command.args(["--tier", tier]);
    }
    let error = command.args(&arguments.options).exec();
    Err(CommandError::io(format!("starting {PROGRAM}"), &error)
        .with_fix("cargo install --path sandbox-conformance, with the features of this command"))
}

fn program() -> PathBuf {
    let beside = std::env::current_exe()
        .ok()
        .map(|command| command.with_file_name(PROGRAM));
    beside
        .filter(|program| program.is_file())
        .unwrap_or_else(|| PROGRAM.into())
}
