//! A program that cleans up when it is interrupted, and this one, which waits for it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{Signal as Taken, SignalKind, signal};

use crate::failure::{Context, Failure, Result};

/// The exit code of what was interrupted, as shells give it.
const INTERRUPTED: u8 = 130;
/// The exit code where the program has none of its own.
const FAILED: u8 = 1;
/// How often the program and the signals are looked at.
const PERIOD: Duration = Duration::from_millis(20);

/// Runs `command` and gives its exit code. The first interrupt is passed on, and the program has `patience` to clean up; the
/// second one, or the end of that time, kills it.
///
/// # Errors
/// When it cannot be started or waited for.
pub fn run(command: &mut Command, patience: Duration) -> Result<ExitCode> {
    wait(command, patience).map(ExitCode::from)
}

fn wait(command: &mut Command, patience: Duration) -> Result<u8> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    runtime
        .context(|| "cannot wait for signals".to_owned())?
        .block_on(watch(command, patience))
}

async fn watch(command: &mut Command, patience: Duration) -> Result<u8> {
    let program = command.get_program().to_string_lossy().into_owned();
    let doing = || format!("cannot start {program}");
    let mut signals = Signals::taken().context(doing)?;
    // In a group of its own a terminal's interrupt does not reach it besides being passed on: two would end it at once.
    let mut child = command.process_group(0).spawn().context(doing)?;
    let mut interrupted: Option<Instant> = None;
    loop {
        let ended = child.try_wait();
        if let Some(status) = ended.context(|| format!("cannot wait for {program}"))? {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(match (interrupted, code) {
                (Some(_), _) => INTERRUPTED,
                (None, Some(code)) => code,
                (None, None) => FAILED,
            });
        }
        if interrupted.is_some_and(|since| since.elapsed() > patience) {
            eprintln!("{program} does not end within {} s", patience.as_secs());
            return end(&mut child);
        }
        let Ok(signal) = tokio::time::timeout(PERIOD, signals.next()).await else {
            continue;
        };
        if interrupted.is_some() {
            return end(&mut child);
        }
        interrupted = Some(Instant::now());
        eprintln!("waiting until {program} has cleaned up; once more ends it at once");
        pass_on(signal, &child)?;
    }
}

/// The signals by which a user or a service manager asks a program to end: from now on they do not end this one.
struct Signals {
    interrupt: Taken,
    terminate: Taken,
    hang_up: Taken,
}

impl Signals {
    fn taken() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hang_up.recv() => Signal::HUP,
        }
    }
}

fn pass_on(signal: Signal, child: &Child) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::new("a process without a number"))?;
    match kill_process(pid, signal) {
        // It has ended, and is waited for next.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context(|| "cannot pass an interrupt on".to_owned()),
    }
}

fn end(child: &mut Child) -> Result<u8> {
    let doing = || "cannot end what was interrupted".to_owned();
    child.kill().context(doing)?;
    child.wait().context(doing)?;
    Ok(INTERRUPTED)
}

#[cfg(test)]
#[path = "interrupt_tests.rs"]
mod tests;
