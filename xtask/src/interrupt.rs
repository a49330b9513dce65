//! Runs a program that cleans up when it is interrupted, and waits for it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Context, Failure};

/// The exit code of an interrupted program, as shells report it.
const INTERRUPTED: u8 = 130;
/// The exit code if the program has none.
const FAILED: u8 = 1;
/// How often the state of the program is checked.
const PERIOD: Duration = Duration::from_millis(20);

/// Runs `command` and returns its exit code. The first interrupt is passed on, and the program has
/// `limit` to clean up. A second one, or the end of that time, kills it.
///
/// # Errors
///
/// If it cannot be started or waited for.
pub fn run(command: &mut Command, limit: Duration) -> Result<ExitCode, Failure> {
    wait(command, limit).map(ExitCode::from)
}

fn wait(command: &mut Command, limit: Duration) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let program = command.get_program().to_string_lossy().into_owned();
    let code = runtime
        .context(|| "cannot wait for signals".to_owned())?
        .block_on(watch(command, limit));
    code.context(|| format!("cannot run {program}"))
}

async fn watch(command: &mut Command, limit: Duration) -> std::io::Result<u8> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // In its own group, so that it gets a terminal's interrupt once: two would end it at once.
    let mut child = command.process_group(0).spawn()?;
    let mut interrupted: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(match interrupted {
                Some(_) => INTERRUPTED,
                None => code.unwrap_or(FAILED),
            });
        }
        let signal = tokio::select! {
            _ = interrupt.recv() => Signal::INT,
            _ = terminate.recv() => Signal::TERM,
            _ = hang_up.recv() => Signal::HUP,
            () = tokio::time::sleep(PERIOD) => match interrupted {
                Some(since) if since.elapsed() > limit => Signal::KILL,
                _ => continue,
            },
        };
        if interrupted.is_some() {
            child.kill()?;
            child.wait()?;
            return Ok(INTERRUPTED);
        }
        interrupted = Some(Instant::now());
        eprintln!("waiting for clean-up; a second interrupt ends the program at once");
        pass_on(signal, &child)?;
    }
}

fn pass_on(signal: Signal, child: &Child) -> std::io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    match pid.map(|pid| kill_process(pid, signal)) {
        // It has ended, and is reaped next.
        None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
        Some(Err(error)) => Err(error.into()),
    }
}

#[cfg(test)]
#[path = "interrupt_tests.rs"]
mod tests;
