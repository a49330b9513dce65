//! `cargo xtask guest`: builds the programs for `ci/guest.sh`, and runs it.

use std::process::ExitCode;

use crate::cargo::{ExecutableKind, PROGRAMS, TESTS, Workspace, program};
use crate::conformance;
use crate::engines::{ScriptArguments, finish, script};
use crate::failure::Failure;

/// The package whose tests run in the guest.
const PACKAGE: &str = "sandbox-local";

/// Runs the guest.
///
/// # Errors
///
/// If the programs cannot be built, or the script cannot be started.
pub fn run(arguments: &ScriptArguments) -> Result<ExitCode, Failure> {
    let workspace = Workspace::find()?;
    let mut command = script("guest.sh")?;
    let programs = workspace.build(PROGRAMS)?;
    command.env("SANDBOX", program(&programs, "sandbox")?);
    command.env("SUITE", program(&programs, conformance::PACKAGE)?);
    if arguments.arguments.iter().any(|word| word == "--tests") {
        let folder = workspace.root.join(PACKAGE);
        // Endurance takes minutes on a machine that is not emulated.
        let tests = workspace.build(TESTS)?;
        let files: Vec<String> = tests
            .iter()
            .filter(|test| test.kind != ExecutableKind::Program && test.package == folder)
            .filter(|test| test.name != "endurance")
            .map(|test| test.path.display().to_string())
            .collect();
        command.env("TESTS", files.join(" "));
    }
    finish(command.args(&arguments.arguments))
}
