//! The command `sandbox-conformance`: measures the linked tiers, writes reports, and keeps the committed matrix honest.
//!
//! Exit codes: 0 everything is as claimed, 1 something is not, 2 wrong usage, 3 a tier that was required could not be measured,
//! 130 interrupted.

mod command;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sandbox_conformance::reaper::{self, Reaper};
use sandbox_conformance::{remains, secret};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a program that was interrupted, as shells give it.
const INTERRUPTED: u8 = 130;

/// The longest that an interrupted run cleans up, where an engine does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

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
    match reaper::Order::given() {
        Ok(None) => {}
        Ok(Some(order)) => {
            return match runtime.block_on(order.carry_out(&command::touched(&arguments))) {
                Ok(()) => ExitCode::SUCCESS,
                Err(trouble) => failed(&trouble.to_string()),
            };
        }
        Err(trouble) => return failed(&trouble.to_string()),
    }
    runtime.block_on(measure(&arguments))
}

async fn measure(arguments: &command::Arguments) -> ExitCode {
    // Before anything is made that they could leave.
    let mut interrupts = match Interrupts::taken() {
        Ok(interrupts) => interrupts,
        Err(error) => return failed(&error.to_string()),
    };
    let reaper = match arguments.touches_tiers().then(Reaper::start).transpose() {
        Ok(reaper) => reaper,
        Err(trouble) => return failed(&trouble.to_string()),
    };
    // Interrupted, everything is dropped, and what is dropped cleans up after itself; what is not bound to a handle is removed.
    let code = tokio::select! {
        done = command::run(arguments) => done.unwrap_or_else(|trouble| failed(&trouble.to_string())),
        () = interrupts.next() => {
            // Who does not want to wait interrupts once more. The reaper does what is left then.
            tokio::select! {
                () = clean_up(arguments) => {}
                () = interrupts.next() => return ExitCode::from(INTERRUPTED),
            }
            ExitCode::from(INTERRUPTED)
        }
    };
    if let Some(reaper) = reaper {
        reaper.dismiss();
    }
    code
}

async fn clean_up(arguments: &command::Arguments) {
    let touched = command::touched(arguments);
    let left = remains::leave_nothing(&touched);
    if tokio::time::timeout(PATIENCE, left).await.is_err() {
        eprintln!(
            "error: not everything is removed after {PATIENCE:?}; the next run goes on with it"
        );
    }
}

/// The signals by which a user or a service manager asks a program to end.
struct Interrupts([Signal; 3]);

impl Interrupts {
    /// From now on they do not end this process.
    fn taken() -> std::io::Result<Self> {
        let [interrupt, terminate, hang_up] = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        Ok(Self([
            signal(interrupt)?,
            signal(terminate)?,
            signal(hang_up)?,
        ]))
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        eprintln!("interrupted");
    }
}

fn failed(what: &str) -> ExitCode {
    eprintln!("error: {}", sandbox_conformance::report::printable(what));
    ExitCode::FAILURE
}
