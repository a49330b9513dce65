//! What a sandbox says that it uses, busy and idle.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sandbox_core::{Error, ErrorKind, ExecEvent, ExecRequest, SandboxHandle, SandboxStats, Stdin};

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// A file in the sandbox's memory or page cache.
const FILE: usize = 32 << 20;

/// The processor time of one execution.
const BURN: Duration = Duration::from_millis(600);

/// How long a sandbox is idle, and the processor time that is more than idle.
const IDLE: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_millis(600);

/// Processes that wait for the end of their input.
const PROCESSES: u64 = 6;

/// Processor time, of code that computes and of a sandbox that does nothing.
pub(super) async fn time(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let burn = Call::new(["burn", &BURN.as_millis().to_string(), "1"]);
    counted(context, "use processor time", async |sandbox| {
        let handle = sandbox.handle();
        let before = handle.stats().await?;
        let start = Instant::now();
        sandbox.execute(&burn).await?;
        let burned = elapsed(&before, &handle.stats().await?);
        // A sandbox has one processor by default.
        let most = start.elapsed();
        let held = hold(handle).await?;
        let idle = elapsed(&held.first, &held.second);
        // Also where the host does not count the time of a sandbox.
        let polls = out_of(
            "time of other processes",
            (Duration::ZERO, BUSY),
            polls(handle).await?,
        );
        if polls.is_some() {
            return Ok(polls);
        }
        let (Some(burned), Some(idle)) = (burned, idle) else {
            return not_counted("processor time");
        };
        let burned = out_of("processor time", (BURN, most), burned);
        Ok(burned.or_else(|| out_of("time without work", (Duration::ZERO, BUSY), idle)))
    })
    .await
}

/// Memory in use, and the most of it.
pub(super) async fn memory(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let file = context.inside("statistics");
    counted(context, "use memory", async |sandbox| {
        let handle = sandbox.handle();
        let before = handle.stats().await?;
        handle.write(&file, vec![b'x'; FILE]).await?;
        let held = handle.stats().await?;
        handle.remove(&file).await?;
        let after = handle.stats().await?;
        let (Some(before), Some(held)) = (before.memory, held.memory) else {
            return not_counted("memory");
        };
        let least = FILE as u64 * 9 / 10;
        let grown = held.saturating_sub(before);
        let grown = out_of("memory", (least, u64::MAX), grown);
        // Kernels before 5.19 do not count it in control groups of version 2.
        let peak = after.memory_peak;
        Ok(grown.or_else(|| peak.and_then(|peak| out_of("peak", (held * 9 / 10, u64::MAX), peak))))
    })
    .await
}

/// Processes that run, and that have ended.
pub(super) async fn processes(context: &mut ProbeContext) -> Result<(), ProbeError> {
    counted(context, "run processes", async |sandbox| {
        let handle = sandbox.handle();
        let held = hold(handle).await?;
        let after = handle.stats().await?;
        let (Some(running), Some(after)) = (held.second.processes, after.processes) else {
            return not_counted("processes");
        };
        // The agent keeps one ready for the next execution.
        let ended = running.saturating_sub(after);
        let running = out_of("processes", (PROCESSES, PROCESSES + 8), running);
        Ok(running.or_else(|| out_of("ended processes", (PROCESSES - 1, PROCESSES + 4), ended)))
    })
    .await
}

async fn counted(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(&ProbeSandbox) -> Deviation,
) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, action, act).await;
    context.no_host_effect("the report does not affect the host");
    Ok(())
}

fn not_counted(what: &str) -> Deviation {
    let context = format!("this host does not count the {what} of a sandbox");
    Err(Error::new(ErrorKind::Unsupported, "count", context))
}

/// The statistics of a sandbox whose processes do nothing, and those of a second later.
struct HeldStatistics {
    first: SandboxStats,
    second: SandboxStats,
}

/// Runs processes that do nothing for a while.
async fn hold(sandbox: &SandboxHandle) -> sandbox_core::Result<HeldStatistics> {
    let script = "n=1; exec 3<&0; while [ $n -lt \"$0\" ]; do cat <&3 & n=$((n + 1)); done
        echo ready; exec cat";
    let request = ExecRequest::shell(script).arg(PROCESSES.to_string());
    let mut execution = sandbox.start(&request, Stdin::Piped).await?;
    let stdin = execution.take_stdin();
    let mut text = Vec::new();
    while !text.ends_with(b"ready\n") {
        match execution.next_event().await? {
            Some(ExecEvent::Stdout(bytes)) => text.extend_from_slice(&bytes),
            Some(_) => {}
            None => break,
        }
    }
    let first = sandbox.stats().await?;
    tokio::time::sleep(IDLE).await;
    let second = sandbox.stats().await?;
    drop(stdin);
    execution.wait().await?;
    Ok(HeldStatistics { first, second })
}

/// The processor time that the processes which code sees, such as the agent, use in a second in
/// which code sleeps.
async fn polls(sandbox: &SandboxHandle) -> sandbox_core::Result<Duration> {
    let script = "cat /proc/[0-9]*/stat; echo; sleep 1; cat /proc/[0-9]*/stat";
    let result = sandbox.exec(&ExecRequest::shell(script)).await?;
    let text = result.stdout_text();
    let Some((before, after)) = text.split_once("\n\n") else {
        return Err(Error::new(
            ErrorKind::Path,
            "list processes",
            "/proc shows none",
        ));
    };
    let before: BTreeMap<_, _> = before.lines().filter_map(ticks).collect();
    let after = after.lines().filter_map(ticks);
    let used = after.map(|(id, ticks)| ticks - before.get(id).copied().unwrap_or(ticks).min(ticks));
    Ok(Duration::from_millis(10 * used.sum::<u64>()))
}

/// The process of a line in `stat`, and its hundredths of a second in user and kernel mode.
fn ticks(line: &str) -> Option<(&str, u64)> {
    let (process, _) = line.split_once(' ')?;
    // A name may have spaces and brackets.
    let mut fields = line.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((process, next()? + next()?))
}

fn elapsed(before: &SandboxStats, after: &SandboxStats) -> Option<Duration> {
    Some(after.cpu_time?.saturating_sub(before.cpu_time?))
}

/// A value outside of its range.
fn out_of<T: PartialOrd + std::fmt::Debug>(
    what: &str,
    (least, most): (T, T),
    found: T,
) -> Option<String> {
    (found < least || found > most).then(|| format!("{what}: {found:?}, not {least:?} to {most:?}"))
}
