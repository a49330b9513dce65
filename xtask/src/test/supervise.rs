//! `cargo xtask supervise`: runs one program, and fails if it leaves processes behind.
//!
//! The test runner starts one supervisor for each job. A supervisor adopts every orphan below it.
//! So it can name and end processes that the program left running. It can also end a program that
//! takes too long, with all processes that the program started.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

use crate::failure::{Context, Failure};

/// How often ended processes are collected.
const PERIOD: Duration = Duration::from_millis(20);
/// How long a started process may take to notice that its owner is gone. Sandboxes promise 5 s.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 8 });
/// How long killed processes may take to disappear.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug, clap::Args)]
pub struct SuperviseArguments {
    /// Time limit of the program in seconds
    #[arg(long, value_name = "SECONDS")]
    limit: u64,
    /// Run the program as this user, without supplementary groups
    #[arg(long, value_name = "UID", requires = "group")]
    user: Option<u32>,
    /// Run the program with this group
    #[arg(long, value_name = "GID", requires = "user")]
    group: Option<u32>,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    program: Vec<std::ffi::OsString>,
}

/// Begins the line with the CPU time, in seconds, of the program and of what it started.
pub const CPU_TIME: &str = "CPU time: ";

/// Runs the program. The exit code is that of the program, or 1 if a signal ended it, if it took
/// too long, or if it succeeded and left processes behind.
///
/// # Errors
///
/// If it cannot be started or waited for.
pub fn run(arguments: &SuperviseArguments) -> Result<ExitCode, Failure> {
    let mut command = Command::new(&arguments.program[0]);
    command.args(&arguments.program[1..]);
    if let (Some(user), Some(group)) = (arguments.user, arguments.group) {
        // The standard library drops the supplementary groups with the user.
        command.uid(user).gid(group);
    }
    let ended = supervise(&mut command, Duration::from_secs(arguments.limit))?;
    if let Some(time) = cpu_time_of_children() {
        println!("{CPU_TIME}{:.1}", time.as_secs_f64());
    }
    if let Some(problem) = ended.problem() {
        println!("error: {problem}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Fields 16 and 17 of proc(5): the CPU time of children that ended. Orphans were adopted, so
/// theirs is in it. A program in a container is a child of the engine's daemon, and is not.
fn cpu_time_of_children() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(16 - 3);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let sum = ticks()? + ticks()?;
    // The kernel counts 100 of them in a second for programs, `USER_HZ`, whatever its own rate.
    Some(Duration::from_millis(sum * 10))
}

/// How a program ended.
#[derive(Debug)]
struct Ended {
    status: ExitStatus,
    /// It was killed because it took longer than this.
    timed_out: Option<Duration>,
    /// The processes that it left running, which were killed.
    leaked: Vec<String>,
}

impl Ended {
    fn problem(&self) -> Option<String> {
        if let Some(limit) = self.timed_out {
            return Some(format!("killed after {} s", limit.as_secs()));
        }
        if !self.status.success() {
            return Some(format!("ended with {}", self.status));
        }
        let leaked = self.leaked.join(", ");
        (!leaked.is_empty()).then(|| format!("left processes running (killed now): {leaked}"))
    }
}

fn supervise(command: &mut Command, limit: Duration) -> Result<Ended, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    // Any process number turns this on.
    set_child_subreaper(Pid::from_raw(1)).context(|| "cannot adopt orphans".to_owned())?;
    let earlier = descendants();
    let child = command
        .stdin(Stdio::null())
        .spawn()
        .context(|| format!("cannot start {program}"))?;
    let running = || {
        let mut running = descendants();
        running.retain(|process| !earlier.contains(process));
        running
    };
    let start = Instant::now();
    let mut timed_out = None;
    let status = loop {
        if let Some(status) = reap(Some(child.id()))? {
            break status;
        }
        if timed_out.is_none() && start.elapsed() > limit {
            timed_out = Some(limit);
            running().iter().try_for_each(kill)?;
        }
        thread::sleep(PERIOD);
    };
    let mut leaked = Vec::new();
    if timed_out.is_none() && !wait_until_gone(running, GRACE, |_| Ok(()))? {
        leaked = running().iter().map(describe).collect();
    }
    if !wait_until_gone(running, KILL_LIMIT, kill)? {
        let list: Vec<_> = running().iter().map(describe).collect();
        return Err(Failure::new(format!("cannot end {}", list.join(", "))));
    }
    Ok(Ended {
        status,
        timed_out,
        leaked,
    })
}

/// Calls `act` for each running process until none is left. Returns whether none is left.
fn wait_until_gone(
    running: impl Fn() -> Vec<RunningProcess>,
    limit: Duration,
    act: impl Fn(&RunningProcess) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let start = Instant::now();
    loop {
        reap(None)?;
        let processes = running();
        if processes.is_empty() || start.elapsed() > limit {
            return Ok(processes.is_empty());
        }
        processes.iter().try_for_each(&act)?;
        thread::sleep(PERIOD);
    }
}

/// Collects every child that has ended, and returns the status of `wanted` when it is one of them.
fn reap(wanted: Option<u32>) -> Result<Option<ExitStatus>, Failure> {
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

fn kill(process: &RunningProcess) -> Result<(), Failure> {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(());
    };
    match kill_process(pid, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context(|| format!("cannot end process {}", process.pid)),
    }
}

/// A process. The start time, in clock ticks since boot, distinguishes it from a later process with
/// the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunningProcess {
    pid: i32,
    parent: i32,
    start: u64,
}

/// Every running process below this one.
fn descendants() -> Vec<RunningProcess> {
    let mut others: Vec<RunningProcess> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect();
    let mut below = Vec::new();
    let mut parents = vec![rustix::process::getpid().as_raw_pid()];
    while let Some(parent) = parents.pop() {
        let (children, rest) = others.into_iter().partition(|p| p.parent == parent);
        others = rest;
        parents.extend(children.iter().map(|child: &RunningProcess| child.pid));
        below.extend(children);
    }
    below
}

/// Fields 3, 4 and 22 of proc(5): state, parent and start time. Ended processes are left out.
fn parse(pid: i32, stat: &str) -> Option<RunningProcess> {
    // The name may hold spaces and parentheses; the last parenthesis ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    Some(RunningProcess {
        pid,
        parent: fields.next()?.parse().ok()?,
        start: fields.nth(22 - 5)?.parse().ok()?,
    })
}

fn describe(process: &RunningProcess) -> String {
    let arguments = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
    let text: String = arguments.trim().chars().take(200).collect();
    format!("process {} {}", process.pid, text.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        supervise(Command::new("sh").args(["-c", script]), limit).expect("sh")
    }

    /// This is one test, because it counts all processes below this one.
    #[test]
    fn timeouts_exit_codes_and_leaked_processes_are_problems() {
        const LONG: Duration = Duration::from_secs(60);
        assert_eq!(shell("true", LONG).problem(), None);
        let problem = shell("exit 3", LONG).problem().expect("a problem");
        assert!(problem.contains("exit status: 3"), "{problem}");
        let problem = shell("sleep 50 & exit 0", LONG).problem().expect("a leak");
        assert!(problem.contains("sleep 50"), "{problem}");
        let start = Instant::now();
        let ended = shell("setsid sleep 51 & sleep 52", Duration::from_millis(200));
        assert!(ended.problem().expect("killed").starts_with("killed after"));
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(descendants(), []);
    }
}
