//! The command `sandbox-conformance`: measures the linked tiers, writes reports, and keeps the committed matrix honest.
//!
//! Exit codes: 0 everything is as claimed, 1 something is not, 2 wrong usage, 3 a tier that was required could not be measured,
//! 130 interrupted.

mod command;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use sandbox_conformance::grounds::{SECRET_VARIABLE, package_variables, random_name};

/// The exit code of a program that was interrupted, as shells give it.
const INTERRUPTED: u8 = 130;

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
    runtime.block_on(async {
        // Interrupted, everything is dropped, and what is dropped cleans up after itself.
        tokio::select! {
            done = command::run(&arguments) => done.unwrap_or_else(|trouble| failed(&trouble.to_string())),
            () = interrupted() => ExitCode::from(INTERRUPTED),
        }
    })
}

/// Becomes this program once more, with a secret in its environment that no sandbox may see, and the way to the suite's package.
fn again_with_a_secret() -> ExitCode {
    let error = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .env(SECRET_VARIABLE, format!("secret-{}", random_name()))
        .envs(package_variables())
        .exec();
    failed(&format!("start again with {SECRET_VARIABLE}: {error}"))
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hang_up)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    eprintln!("interrupted");
}

fn failed(what: &str) -> ExitCode {
    eprintln!("error: {}", sandbox_conformance::report::printable(what));
    ExitCode::FAILURE
}
