//! The command `sandbox-conformance`: measures the linked tiers, writes reports, and keeps the committed matrix honest.
//!
//! Exit codes: 0 everything is as claimed, 1 something is not, 2 wrong usage, 3 a tier that was required could not be measured,
//! 130 interrupted.

mod command;

use std::process::ExitCode;

use clap::Parser;
use sandbox_conformance::secret;

/// The exit code of a program that was interrupted, as shells give it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let arguments = command::Arguments::parse();
    if let Err(trouble) = secret::start_with_one() {
        return failed(&trouble.to_string());
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    runtime.block_on(async {
        // Interrupted, everything is dropped, and what is dropped cleans up after itself; what is not bound to a handle is removed.
        tokio::select! {
            done = command::run(&arguments) => done.unwrap_or_else(|trouble| failed(&trouble.to_string())),
            () = interrupted() => {
                // Who does not want to wait interrupts once more.
                tokio::select! {
                    () = command::leave_nothing(&arguments) => {}
                    () = interrupted() => {}
                }
                ExitCode::from(INTERRUPTED)
            }
        }
    })
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
