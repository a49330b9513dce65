//! A process beside a run that outlives it: where the run is killed, it removes what the run left. Where the run ends by itself, it has
//! done so already, and the reaper ends first.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::{join, join_all};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::setsid;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::host_remains;
use crate::probe::Trouble;
use crate::remains::{RunId, decoded, remove_detached};
use crate::target::Target;

/// What makes this program the reaper of the run that it names.
const ORDER: &str = "SANDBOX_CONFORMANCE_REAPER";

/// How long what a killed run has asked for may yet come into being: an engine makes a container within a second, and starts it.
const LATE: Duration = Duration::from_secs(4);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest that a reaper goes on after its run, where an engine does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a run says that has left nothing.
const DONE: u8 = b'.';

/// The reaper of this process.
#[derive(Debug)]
pub struct Reaper(Child);

impl Reaper {
    /// Starts this program once more, with the same arguments, and waits until it watches. The program has to look for
    /// [`Order::given`] before it does anything else.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start() -> Result<Self, Trouble> {
        let failed = |error| Trouble::new(format!("start what cleans up after this run: {error}"));
        let mut child = Command::new("/proc/self/exe")
            .arg0("sandbox-conformance-reaper")
            .args(std::env::args_os().skip(1))
            .env(ORDER, RunId::current().encode())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut ready = [0; 1];
        let read = match child.stdout.take() {
            Some(mut stdout) => stdout.read_exact(&mut ready),
            None => Ok(()),
        };
        read.map_err(failed)?;
        Ok(Self(child))
    }

    /// This run has left nothing: ends the reaper.
    pub fn dismiss(mut self) {
        // One that has ended already, or does not understand, looks for itself; both cost nothing but time.
        let _ = self
            .0
            .stdin
            .take()
            .map(|mut stdin| stdin.write_all(&[DONE]));
        let _ = self.0.wait();
    }
}

/// The order to watch a run.
#[derive(Debug)]
pub struct Order(RunId);

impl Order {
    /// The order that this process was given, if it was given one.
    ///
    /// # Errors
    ///
    /// When it names no run.
    pub fn given() -> Result<Option<Self>, Trouble> {
        let text = std::env::var(ORDER).ok();
        text.map(|text| decoded(&text).map(Self)).transpose()
    }

    /// Waits for the end of the run, and removes what it left on these targets and on the host, unless it says that it has done so.
    ///
    /// # Errors
    ///
    /// When it cannot watch. What it cannot remove is told on standard error.
    pub async fn carry_out(self, targets: &[Target]) -> Result<(), Trouble> {
        // A terminal's interrupts and its end are for the run, as is what is sent to all programs of this name.
        setsid().map_err(|error| Trouble::new(format!("leave the session of the run: {error}")))?;
        let _deaf = deaf()?;
        let watched = self.0.process.open();
        let mut said =
            pipe::Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)?;
        let mut ready = std::io::stdout().lock();
        ready.write_all(&[DONE])?;
        ready.flush()?;
        drop(ready);
        let mut word = [0; 1];
        let read = match watched {
            // Not the end of the pipe: what the run has started may hold it too.
            Some(process) => {
                tokio::select! {
                    _ = end_of(process)? => 0,
                    read = said.read(&mut word) => read?,
                }
            }
            // It has ended already, or the kernel does not watch processes.
            None => said.read(&mut word).await?,
        };
        if read > 0 {
            return Ok(());
        }
        let reaped = tokio::time::timeout(PATIENCE, self.reap(targets)).await;
        reaped
            .map_err(|_| Trouble::new(format!("what a killed run left: no end after {PATIENCE:?}")))
    }

    /// Looks at the host and at each target by itself, for none has to wait for another's engine.
    async fn reap(&self, targets: &[Target]) {
        let end = Instant::now() + LATE;
        let host = repeated(end, async || host_remains::remove_of(self.0.process.pid));
        let tiers = targets.iter().map(|target| {
            repeated(end, async || {
                remove_detached(target, |run| *run == self.0).await
            })
        });
        let (mut stays, of_tiers) = join(host, join_all(tiers)).await;
        stays.extend(of_tiers.concat());
        let mut told = std::io::stderr().lock();
        for stays in stays {
            let stays = crate::report::printable(&stays);
            // The terminal may have gone with the run: then there is nobody left to tell.
            let _ = writeln!(told, "of a run that was killed: {stays}");
        }
    }
}

/// Looks more than once, for what the run asked an engine for may come into being after it, and gives what stayed the last time.
async fn repeated(end: Instant, look: impl AsyncFn() -> Vec<String>) -> Vec<String> {
    loop {
        let stays = look().await;
        if Instant::now() >= end {
            return stays;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tells of the end of a process. The thread that waits for it ends with this process, if not before.
fn end_of(process: OwnedFd) -> Result<oneshot::Receiver<()>, Trouble> {
    let (ended, end) = oneshot::channel();
    std::thread::Builder::new().spawn(move || {
        let mut watched = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        // Nobody listens any more where the run has said that it is done.
        let _ = ended.send(());
    })?;
    Ok(end)
}

/// Signals that would end this process do nothing from now on.
fn deaf() -> Result<Vec<Signal>, Trouble> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let signals: std::io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
    Ok(signals?)
}
