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
    let problem = supervise(&mut command, Duration::from_secs(arguments.limit))?;
    if let Some(time) = cpu_time_of_children() {
        println!("{CPU_TIME}{:.1}", time.as_secs_f64());
    }
    if let Some(problem) = problem {
        println!("error: {problem}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Fields 16 and 17 of proc(5): the CPU time of children that ended. Orphans were adopted, so
/// theirs is in it. A program in a container is a child of the engine's daemon, and is not.
fn cpu_time_of_children() -> Option<Duration> {
    let fields = stat_fields("self")?;
    let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    // The kernel counts 100 of them in a second for programs, `USER_HZ`, whatever its own rate.
    Some(Duration::from_millis((ticks(16)? + ticks(17)?) * 10))
}

/// The fields of a process in proc(5), from the third on.
fn stat_fields(process: &str) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold spaces and parentheses; the last parenthesis ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Runs a program, ends what it left running, and returns the problem if there was one.
fn supervise(command: &mut Command, limit: Duration) -> Result<Option<String>, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    // Any process number turns this on.
    set_child_subreaper(Pid::from_raw(1)).context(|| "cannot adopt orphans")?;
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
    let mut timed_out = false;
    let status = loop {
        if let Some(status) = reap(Some(child.id()))? {
            break status;
        }
        if !timed_out && start.elapsed() > limit {
            timed_out = true;
            running().iter().try_for_each(kill)?;
        }
        thread::sleep(PERIOD);
    };
    let leaked = match timed_out {
        true => String::new(),
        false => wait_until_gone(running, GRACE, |_| Ok(()))?,
    };
    let left = wait_until_gone(running, KILL_LIMIT, kill)?;
    if !left.is_empty() {
        return Err(Failure::new(format!("cannot end {left}")));
    }
    Ok(if timed_out {
        Some(format!("killed after {} s", limit.as_secs()))
    } else if !status.success() {
        Some(format!("ended with {status}"))
    } else {
        (!leaked.is_empty()).then(|| format!("left processes running (killed now): {leaked}"))
    })
}

/// Calls `act` for each running process until none is left. Returns a list of those that are.
fn wait_until_gone(
    running: impl Fn() -> Vec<RunningProcess>,
    limit: Duration,
    act: impl Fn(&RunningProcess) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let start = Instant::now();
    loop {
        reap(None)?;
        let processes = running();
        if processes.is_empty() || start.elapsed() > limit {
            let list: Vec<_> = processes.iter().map(describe).collect();
            return Ok(list.join(", "));
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
            Err(error) => return Err(error).context(|| "cannot wait for children"),
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
        .filter_map(|entry| running_process(entry.file_name().to_str()?))
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
fn running_process(number: &str) -> Option<RunningProcess> {
    let pid = number.parse().ok()?;
    let fields = stat_fields(number)?;
    if matches!(fields.first()?.as_str(), "Z" | "X") {
        return None;
    }
    Some(RunningProcess {
        pid,
        parent: fields.get(4 - 3)?.parse().ok()?,
        start: fields.get(22 - 3)?.parse().ok()?,
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

    /// What the supervisor says about a script.
    fn problem(script: &str, limit: Duration) -> Option<String> {
        supervise(Command::new("sh").args(["-c", script]), limit).expect("sh")
    }

    /// One test, in a process of its own: the supervisor collects and ends all processes below the
    /// current one, and the programs of other tests would be among them.
    #[test]
    fn timeouts_exit_codes_and_leaked_processes_are_problems() {
        const ALONE: &str = "XTASK_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let output = Command::new(std::env::current_exe().expect("this program"))
                .args([
                    "--exact",
                    thread::current().name().expect("the test's name"),
                ])
                .env(ALONE, "1")
                .output()
                .expect("this program");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{text}"
            );
            return;
        }
        const LONG: Duration = Duration::from_secs(60);
        assert_eq!(problem("true", LONG), None);
        let failed = problem("exit 3", LONG).expect("a problem");
        assert!(failed.contains("exit status: 3"), "{failed}");
        let leak = problem("sleep 50 & exit 0", LONG).expect("a leak");
        assert!(leak.contains("sleep 50"), "{leak}");
        let start = Instant::now();
        let killed = problem("setsid sleep 51 & sleep 52", Duration::from_millis(200));
        assert!(killed.expect("killed").starts_with("killed after"));
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(descendants(), []);
    }
}
