//! The end of the processes that wait for a program.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandbox_core::Stdin;

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// What the kernel says of a process.
struct ProcessStatus {
    parent: i32,
    /// When it started, in ticks since the start of the system.
    started: u64,
    /// The number of PID namespaces that the process is in.
    depth: usize,
}

/// What happened after the kill.
enum KillResult {
    /// No process of the sandbox's own waits for the program.
    NoVictim,
    /// Why the process could not be killed.
    NotKilled(String),
    Killed(Option<String>),
}

/// The process to kill.
#[derive(Clone, Copy, PartialEq)]
enum Victim {
    /// The program's parent.
    Supervisor,
    /// The supervisor's parent.
    Agent,
}

pub(super) async fn supervisor(context: &mut ProbeContext) -> Result<(), ProbeError> {
    run(context, Victim::Supervisor).await
}

pub(super) async fn agent(context: &mut ProbeContext) -> Result<(), ProbeError> {
    run(context, Victim::Agent).await
}

async fn run(context: &mut ProbeContext, victim: Victim) -> Result<(), ProbeError> {
    let name = |place: &str| format!("{}-{place}", context.token());
    let (host_token, token) = (name("control"), name("attack"));
    let sleep = Call::new(["sleep", &host_token, "3000"]);
    let child = host::spawn(&context.fixture().program(), &sleep).await?;
    let seen = host::wait_for_process(&host_token).await?.and_then(status);
    let own = i32::try_from(std::process::id()).ok();
    let parent = seen.as_ref().map(|seen| seen.parent);
    let since = seen.map_or(u64::MAX, |seen| seen.started);
    drop(child);
    let failure = (own.is_none() || parent != own).then(|| format!("its parent is {parent:?}"));
    context.record_host_control(control("see the parent of a process of the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let killed = context
        .with_sandbox(async |sandbox| kill(sandbox, victim, &token, since).await)
        .await;
    let left = host::wait_until_gone(&token, GONE).await?;
    host::kill_all_with(&token)?;
    let deviation = match killed {
        Err(attempt) => Err(attempt),
        Ok(killed) => match killed? {
            KillResult::NoVictim => {
                context.not_offered("no process of the sandbox waits for the program");
                Ok(None)
            }
            KillResult::NotKilled(why) => Err(Attempt::unclear(why)),
            KillResult::Killed(deviation) => Ok(deviation),
        },
    };
    context.record_attack(behavior("kill a process of the agent", deviation));
    context.check_host("processes of the host after the kill", left.is_empty());
    Ok(())
}

async fn kill(
    sandbox: &ProbeSandbox,
    victim: Victim,
    token: &str,
    since: u64,
) -> Result<KillResult, ProbeError> {
    let sleep = sandbox.request(&Call::new(["sleep", token, "9000"]));
    let sleep = sleep.timeout(Duration::from_secs(5));
    let mut execution = sandbox.handle().start(&sleep, Stdin::Null).await?;
    let Some(program) = host::wait_for_process(token).await? else {
        let why = "the sandbox's process was never seen on the host";
        return Ok(KillResult::NotKilled(why.to_owned()));
    };
    let found = match victim {
        Victim::Supervisor => parent_of(program, since),
        Victim::Agent => {
            parent_of(program, since).and_then(|parent| parent_of(parent.as_raw_pid(), since))
        }
    };
    let Some(found) = found else {
        return Ok(KillResult::NoVictim);
    };
    if let Err(errno) = kill_process(found, Signal::KILL) {
        // Without root, the agent may be another user's.
        return Ok(KillResult::NotKilled(format!(
            "it could not be killed: {errno}"
        )));
    }
    let ended = execution.wait().await;
    let next = sandbox.request(&Call::new(["alive"]));
    let next = sandbox.handle().exec(&next).await;
    let is_alive = next.as_ref().is_ok_and(|result| result.success());
    let is_unknown = match &ended {
        Ok(result) => matches!(result.outcome, Outcome::Unknown { .. }),
        Err(_) => victim == Victim::Agent,
    };
    let is_expected = is_unknown && is_alive == (victim == Victim::Supervisor);
    Ok(KillResult::Killed((!is_expected).then(|| {
        let ended = ended.map(|result| result.outcome);
        let next = next.map(|result| result.outcome);
        format!("{ended:?}; the next execution: {next:?}")
    })))
}

/// The process's parent, if it is a process of the same sandbox, which was created after `since`.
/// Otherwise the parent is this process or one of an engine, which this probe must not kill.
fn parent_of(process: i32, since: u64) -> Option<Pid> {
    let process = status(process)?;
    let parent = status(process.parent)?;
    let is_this = u32::try_from(process.parent) == Ok(std::process::id());
    let is_own = !is_this && parent.depth == process.depth && parent.started >= since;
    Pid::from_raw(process.parent).filter(|_| is_own)
}

fn status(process: i32) -> Option<ProcessStatus> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // A name may have spaces and brackets. What follows it starts with field 3.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
    Some(ProcessStatus {
        parent: field("PPid:")?.trim().parse().ok()?,
        started: fields.nth(22 - 3)?.parse().ok()?,
        depth: field("NSpid:")?.split_whitespace().count(),
    })
}
