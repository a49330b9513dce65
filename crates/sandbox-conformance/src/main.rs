//! The command `sandbox-conformance`: measures the linked tiers, writes reports, and keeps the committed matrix honest.
//!
//! Exit codes: 0 everything is as claimed, 1 something is not, 2 wrong usage, 3 a tier that was required could not be measured.

mod command;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use sandbox_conformance::grounds::{SECRET_VARIABLE, random_name};

fn main() -> ExitCode {
    let arguments = command::Arguments::parse();
    if std::env::var_os(SECRET_VARIABLE).is_none() {
        return again_with_a_secret();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    match runtime.block_on(command::run(&arguments)) {
        Ok(code) => code,
        Err(trouble) => failed(&trouble.to_string()),
    }
}

/// Becomes this program once more, with a secret in its environment that no sandbox may see.
fn again_with_a_secret() -> ExitCode {
    let error = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .env(SECRET_VARIABLE, format!("secret-{}", random_name()))
        .exec();
    failed(&format!("start again with {SECRET_VARIABLE}: {error}"))
}

fn failed(what: &str) -> ExitCode {
    eprintln!("error: {}", sandbox_conformance::report::printable(what));
    ExitCode::FAILURE
}
