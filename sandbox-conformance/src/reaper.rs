//! The reaper: a process that outlives a run. If the run is killed, the reaper removes what it
//! left. If the run ends by itself, it cleans up and dismisses the reaper.

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

use crate::host_leftovers;
use crate::leftovers::{RunId, parse_run_id, remove_detached};
use crate::probe::ProbeError;
use crate::target::Target;

/// The variable that makes this program a reaper. It names the run.
const RUN_VARIABLE: &str = "SANDBOX_CONFORMANCE_REAPER";

/// How long an engine may need to finish a request of the killed run, such as creating a container.
const LATE: Duration = Duration::from_secs(4);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// The maximum time of cleaning up, for example if an engine does not answer.
const CLEANUP_LIMIT: Duration = Duration::from_secs(60);

/// The byte that dismisses the reaper, and by which the reaper reports that it is ready.
const DONE: u8 = b'.';

/// The reaper of this process.
#[derive(Debug)]
pub struct Reaper(Child);

impl Reaper {
    /// Starts this program again with the same arguments and waits until it watches this process.
    /// The program must call [`ReaperTask::from_env`] before anything else.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start() -> Result<Self, ProbeError> {
        let failed =
            |error| ProbeError::new(format!("cannot start the reaper of this run: {error}"));
        let mut child = Command::new("/proc/self/exe")
            .arg0("sandbox-conformance-reaper")
            .args(std::env::args_os().skip(1))
            .env(RUN_VARIABLE, RunId::current().encode())
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

    /// Ends the reaper. This run must have cleaned up.
    pub fn dismiss(mut self) {
        // If this fails, the reaper cleans up by itself.
        let _ = self
            .0
            .stdin
            .take()
            .map(|mut stdin| stdin.write_all(&[DONE]));
        let _ = self.0.wait();
    }
}

/// The task of a reaper: to clean up after one run.
#[derive(Debug)]
pub struct ReaperTask(RunId);

impl ReaperTask {
    /// The task in this process's environment, if there is one.
    ///
    /// # Errors
    ///
    /// If the variable names no run.
    pub fn from_env() -> Result<Option<Self>, ProbeError> {
        let text = std::env::var(RUN_VARIABLE).ok();
        text.map(|text| parse_run_id(&text).map(Self)).transpose()
    }

    /// Waits for the end of the run. Unless the run has cleaned up, removes what it left on the
    /// host and on these targets.
    ///
    /// # Errors
    ///
    /// If the run cannot be watched. What cannot be removed is printed to standard error.
    pub async fn run(self, targets: &[Target]) -> Result<(), ProbeError> {
        // Leaves the session, so that signals to the run's terminal and process group do not end
        // the reaper.
        setsid().map_err(|error| {
            ProbeError::new(format!("cannot leave the session of the run: {error}"))
        })?;
        let _deaf = ignore_signals()?;
        let watched = self.0.process.open();
        let mut pipe =
            pipe::Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)?;
        let mut ready = std::io::stdout().lock();
        ready.write_all(&[DONE])?;
        ready.flush()?;
        drop(ready);
        let mut word = [0; 1];
        let read = match watched {
            // The end of the pipe is not a reliable sign: processes of the run may hold it too.
            Some(process) => {
                tokio::select! {
                    _ = end_of(process)? => 0,
                    read = pipe.read(&mut word) => read?,
                }
            }
            // The run has ended, or the kernel has no pidfds.
            None => pipe.read(&mut word).await?,
        };
        if read > 0 {
            return Ok(());
        }
        let reaped = tokio::time::timeout(CLEANUP_LIMIT, self.reap(targets)).await;
        reaped.map_err(|_| {
            ProbeError::new(format!(
                "cleaning up after a killed run took longer than {CLEANUP_LIMIT:?}"
            ))
        })
    }

    /// Cleans up the host and all targets concurrently, so that no engine delays another.
    async fn reap(&self, targets: &[Target]) {
        let end = Instant::now() + LATE;
        let host = repeat_until(end, async || {
            host_leftovers::remove_from_run(self.0.process.pid)
        });
        let tiers = targets.iter().map(|target| {
            repeat_until(end, async || {
                remove_detached(target, |run| *run == self.0).await
            })
        });
        let (mut failures, tier_failures) = join(host, join_all(tiers)).await;
        failures.extend(tier_failures.concat());
        let mut stderr = std::io::stderr().lock();
        for failures in failures {
            let failures = crate::report::printable(&failures);
            // The terminal may have closed with the run.
            let _ = writeln!(stderr, "cannot clean up after a killed run: {failures}");
        }
    }
}

/// Repeats `clean_up` until `end`, because an engine may still finish a request of the run. Returns the
/// errors of the last call.
async fn repeat_until(end: Instant, clean_up: impl AsyncFn() -> Vec<String>) -> Vec<String> {
    loop {
        let failures = clean_up().await;
        if Instant::now() >= end {
            return failures;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reports the end of a process. A thread waits for it.
fn end_of(process: OwnedFd) -> Result<oneshot::Receiver<()>, ProbeError> {
    let (ended, end) = oneshot::channel();
    std::thread::Builder::new().spawn(move || {
        let mut watched = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        // The receiver is gone if the run dismissed the reaper first.
        let _ = ended.send(());
    })?;
    Ok(end)
}

/// Ignores the signals that would end this process.
fn ignore_signals() -> Result<Vec<Signal>, ProbeError> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let signals: std::io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
    Ok(signals?)
}
