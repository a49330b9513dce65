//! Runs one program of a step, and sees that nothing of it stays behind.
//!
//! This process makes itself the parent of every orphan below it. So it can tell afterwards what a
//! program left running, and end a program that takes too long with all that it started. It also
//! has to wait for those orphans as init does, or a test that looks whether a process is gone
//! would find its remains.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

use super::descendants::{self, Process};
use crate::failure::{Context, Failure, Result};

/// How often ended processes are waited for.
const PERIOD: Duration = Duration::from_millis(10);
/// What a program started may need this long to notice that its owner is gone: sandboxes promise
/// 5 s.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 8 });
/// Most time for killed processes to disappear.
const PATIENCE_AFTER_KILL: Duration = Duration::from_secs(5);

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// It was ended because it took longer than this.
    pub timed_out: Option<Duration>,
    /// What it left running, which was ended then.
    pub left: Vec<String>,
}

impl Ended {
    /// Turns everything but a clean success into a failure that names `what`.
    ///
    /// # Errors
    /// For a timeout, another exit code than 0, and processes left behind, in this order.
    pub fn into_result(self, what: &str) -> Result<()> {
        if let Some(limit) = self.timed_out {
            return Err(Failure::new(format!(
                "{what} took longer than {} s",
                limit.as_secs()
            )));
        }
        if !self.status.success() {
            return Err(Failure::new(format!("{what} failed with {}", self.status)));
        }
        if !self.left.is_empty() {
            let list = self.left.join(", ");
            return Err(Failure::new(format!(
                "{what} left running: {list} (ended now)"
            )));
        }
        Ok(())
    }
}

/// Runs `command` without input for at most `limit`. Its output goes where this process' goes.
///
/// # Errors
/// When it cannot be started or waited for.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended> {
    supervise(command, limit, None)
}

/// As [`run`], but stdout and stderr together go to `line`, piece by piece without the line's end.
///
/// # Errors
/// As [`run`].
pub fn run_and_read(
    command: &mut Command,
    limit: Duration,
    line: &mut dyn FnMut(&str),
) -> Result<Ended> {
    supervise(command, limit, Some(line))
}

type Sink<'a> = Option<&'a mut dyn FnMut(&str)>;

fn supervise(command: &mut Command, limit: Duration, sink: Sink<'_>) -> Result<Ended> {
    let program = command.get_program().to_string_lossy().into_owned();
    // The number means "yes"; none would mean "no longer".
    set_child_subreaper(Pid::from_raw(1)).context(|| "cannot adopt orphans".to_owned())?;
    let before = descendants::below(own_pid());
    let lines = match sink {
        Some(_) => Some(pipe(command).context(|| "cannot make a pipe".to_owned())?),
        None => None,
    };
    let child = command
        .stdin(Stdio::null())
        .spawn()
        .context(|| format!("cannot start {program}"))?;
    // The command keeps the pipe's other end open until it is given another.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut watch = Watch {
        lines,
        sink,
        before,
    };
    let (status, timed_out) = watch.until_ended(child.id(), limit)?;
    let left = if timed_out.is_some() {
        Vec::new()
    } else {
        watch.left_behind()?
    };
    watch.end_all()?;
    watch.drain();
    Ok(Ended {
        status,
        timed_out,
        left,
    })
}

fn pipe(command: &mut Command) -> io::Result<Receiver<String>> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut bytes = Vec::new();
        while reader
            .read_until(b'\n', &mut bytes)
            .is_ok_and(|count| count > 0)
        {
            let text = String::from_utf8_lossy(&bytes)
                .trim_end_matches('\n')
                .to_owned();
            bytes.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

struct Watch<'a> {
    lines: Option<Receiver<String>>,
    sink: Sink<'a>,
    before: Vec<Process>,
}

impl Watch<'_> {
    fn until_ended(&mut self, pid: u32, limit: Duration) -> Result<(ExitStatus, Option<Duration>)> {
        let begin = Instant::now();
        let mut timed_out = None;
        loop {
            if let Some(status) = reap(Some(pid))? {
                return Ok((status, timed_out));
            }
            if begin.elapsed() > limit && timed_out.is_none() {
                timed_out = Some(limit);
                for process in self.remaining() {
                    kill(&process)?;
                }
            }
            self.pass_on(PERIOD);
        }
    }

    /// Hands on the lines that come within `period`, which always passes in full.
    fn pass_on(&mut self, period: Duration) {
        let end = Instant::now() + period;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let received = match &self.lines {
                Some(lines) => lines.recv_timeout(rest),
                None => Err(RecvTimeoutError::Disconnected),
            };
            match (received, &mut self.sink) {
                (Ok(line), Some(sink)) => sink(&line),
                (Err(RecvTimeoutError::Timeout), _) => return,
                (Ok(_), None) | (Err(RecvTimeoutError::Disconnected), _) => {
                    thread::sleep(rest);
                    return;
                }
            }
        }
    }

    /// Hands on what was written before the end.
    fn drain(&mut self) {
        let end = Instant::now() + PATIENCE_AFTER_KILL;
        while let (Some(lines), Some(sink)) = (&self.lines, &mut self.sink) {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => sink(&line),
                Err(_) => return,
            }
        }
    }

    fn left_behind(&mut self) -> Result<Vec<String>> {
        let begin = Instant::now();
        loop {
            reap(None)?;
            let left = self.remaining();
            if left.is_empty() || begin.elapsed() > GRACE {
                return Ok(left.iter().map(descendants::describe).collect());
            }
            self.pass_on(PERIOD);
        }
    }

    fn end_all(&mut self) -> Result<()> {
        let begin = Instant::now();
        loop {
            reap(None)?;
            let left = self.remaining();
            if left.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE_AFTER_KILL {
                let list: Vec<_> = left.iter().map(descendants::describe).collect();
                return Err(Failure::new(format!("cannot end {}", list.join(", "))));
            }
            for process in &left {
                kill(process)?;
            }
            self.pass_on(PERIOD);
        }
    }

    fn remaining(&self) -> Vec<Process> {
        let is_new = |process: &Process| {
            let same = |old: &Process| old.pid == process.pid && old.start == process.start;
            !process.zombie && !self.before.iter().any(same)
        };
        descendants::below(own_pid())
            .into_iter()
            .filter(is_new)
            .collect()
    }
}

/// Waits for every child that has ended, and returns the status of `wanted` when it is among them.
fn reap(wanted: Option<u32>) -> Result<Option<ExitStatus>> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if wanted.is_some_and(|wanted| u32::try_from(pid.as_raw_pid()) == Ok(wanted)) {
                    return Ok(Some(ExitStatus::from_raw(status.as_raw())));
                }
            }
            Ok(None) => return Ok(None),
            Err(rustix::io::Errno::CHILD) if wanted.is_none() => return Ok(None),
            Err(error) => return Err(error).context(|| "cannot wait for children".to_owned()),
        }
    }
}

/// Kills a process; one that is gone already is fine.
///
/// # Errors
/// When the kernel refuses the signal.
pub fn kill(process: &Process) -> Result<()> {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(());
    };
    match kill_process(pid, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context(|| format!("cannot end process {}", process.pid)),
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;
