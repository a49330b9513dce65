//! The command `sandbox-conformance`: measures the linked tiers, writes reports, and checks the
//! committed matrix.
//!
//! Exit codes: 0 every claim holds, 1 a claim does not hold, 2 wrong usage, 3 a required tier could
//! not be measured, 130 interrupted.

mod command;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sandbox_conformance::reaper::{self, Reaper};
use sandbox_conformance::{leftovers, startup};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// The exit code of an interrupted program, as in shells.
const INTERRUPTED: u8 = 130;

/// The maximum time that an interrupted run cleans up, for example if an engine does not answer.
const CLEANUP_LIMIT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments = command::CommandLine::parse();
    if let Err(error) = startup::reexec_with_secret() {
        return failed(&error.to_string());
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    match reaper::ReaperTask::from_env() {
        Ok(None) => {}
        Ok(Some(task)) => {
            return match runtime.block_on(task.run(&command::touched(&arguments))) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&error.to_string()),
            };
        }
        Err(error) => return failed(&error.to_string()),
    }
    let code = runtime.block_on(measure(&arguments));
    // After an interrupt, the thread of a probe may still wait for a sandbox that is gone.
    runtime.shutdown_background();
    code
}

async fn measure(arguments: &command::CommandLine) -> ExitCode {
    // Before the run creates anything that an interrupt could leave behind.
    let interrupted = match interrupts() {
        Ok(interrupted) => interrupted,
        Err(error) => return failed(&error.to_string()),
    };
    let reaper = match arguments.touches_tiers().then(Reaper::start).transpose() {
        Ok(reaper) => reaper,
        Err(error) => return failed(&error.to_string()),
    };
    // An interrupt drops the run, and each handle cleans up after itself. What is bound to no
    // handle is removed here.
    let code = tokio::select! {
        done = command::run(arguments) => done.unwrap_or_else(|error| failed(&error.to_string())),
        _ = interrupted => {
            clean_up(arguments).await;
            ExitCode::from(INTERRUPTED)
        }
    };
    if let Some(reaper) = reaper {
        reaper.dismiss();
    }
    code
}

async fn clean_up(arguments: &command::CommandLine) {
    let touched = command::touched(arguments);
    let left = leftovers::remove_all(&touched);
    if tokio::time::timeout(CLEANUP_LIMIT, left).await.is_err() {
        eprintln!("error: cleanup did not end within {CLEANUP_LIMIT:?}; the next run continues it");
    }
}

/// Handles the signals that ask a program to end, from now on. The first one resolves the receiver.
/// The second one ends this process, and the reaper removes the rest.
///
/// A task of its own receives the signals, and the process does not wait for its threads: whatever
/// blocks while a run is dropped must not delay the second signal.
fn interrupts() -> std::io::Result<oneshot::Receiver<()>> {
    let mut signals = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let (first, interrupted) = oneshot::channel();
    tokio::spawn(async move {
        next(&mut signals).await;
        // The receiver is gone if the run has just ended.
        let _ = first.send(());
        next(&mut signals).await;
        std::process::exit(INTERRUPTED.into());
    });
    Ok(interrupted)
}

/// Waits for the next signal.
async fn next([interrupt, terminate, hang_up]: &mut [Signal; 3]) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    eprintln!("interrupted");
}

fn failed(what: &str) -> ExitCode {
    eprintln!("error: {}", sandbox_conformance::report::printable(what));
    ExitCode::FAILURE
}
