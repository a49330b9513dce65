//! Signals that end the command, and with it the sandbox.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command_error::CommandError;

/// The signals that end the command.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Self, CommandError> {
        let listen =
            |kind| signal(kind).map_err(|error| CommandError::io("listening for signals", &error));
        // `nohup` starts programs with SIGHUP ignored.
        let hangup = if is_ignored(SignalKind::hangup()) {
            None
        } else {
            Some(listen(SignalKind::hangup())?)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            quit: listen(SignalKind::quit())?,
            hangup,
        })
    }

    /// Waits for the next signal, and returns its number.
    pub async fn next(&mut self) -> i32 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.quit.recv() => SignalKind::quit(),
            _ = hangup => SignalKind::hangup(),
        };
        kind.as_raw_value()
    }
}

/// Whether the command was started with a signal ignored; false if that is unknown.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (kind.as_raw_value() - 1)) != 0)
}
