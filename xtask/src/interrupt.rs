//! Runs a program that cleans up when it is interrupted, and waits for it.

use std::io;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Context, Failure};

/// The exit code of an interrupted program, as shells report it.
const INTERRUPTED: u8 = 130;
/// The exit code if the program has none.
const FAILED: u8 = 1;

/// Runs `command` and returns its exit code. The first interrupt is passed on, and the program has
/// `limit` to clean up. A second one, or the end of that time, kills it.
///
/// # Errors
///
/// If it cannot be started or waited for.
pub fn run(command: Command, limit: Duration) -> Result<ExitCode, Failure> {
    wait(command, limit).map(ExitCode::from)
}

fn wait(command: Command, limit: Duration) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let program = command.get_program().to_string_lossy().into_owned();
    runtime
        .context(|| "cannot wait for signals")?
        .block_on(watch(command, limit))
        .context(|| format!("cannot run {program}"))
}

async fn watch(command: Command, limit: Duration) -> io::Result<u8> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut next_signal = async || {
        tokio::select! {
            _ = interrupt.recv() => Signal::INT,
            _ = terminate.recv() => Signal::TERM,
            _ = hang_up.recv() => Signal::HUP,
        }
    };
    let mut command = tokio::process::Command::from(command);
    // In its own group, so that it gets a terminal's interrupt once: two would end it at once.
    let mut child = command.process_group(0).spawn()?;
    let signal = tokio::select! {
        status = child.wait() => {
            let code = status?.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.unwrap_or(FAILED));
        }
        signal = next_signal() => signal,
    };
    eprintln!("waiting for clean-up; a second interrupt ends the program at once");
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    // Without a number, it has ended.
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        kill_process(pid, signal)?;
    }
    tokio::select! {
        status = child.wait() => drop(status?),
        _ = next_signal() => child.kill().await?,
        () = tokio::time::sleep(limit) => child.kill().await?,
    }
    Ok(INTERRUPTED)
}

#[cfg(test)]
#[path = "interrupt_tests.rs"]
mod tests;
