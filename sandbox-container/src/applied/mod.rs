//! What a container really has of what the engine was asked for: read from the host's kernel while only the agent runs in it.
//!
//! An option may be left out on the way to the engine, and an engine may take one and not apply it (limits without the rights for
//! them, a configuration of its own that adds folders or shares namespaces), and says so in no answer. So each container of an engine
//! on this host is looked at before its agent gets its first word. What the host does not show (another user's processes, a virtual
//! machine) is left as the engine has it.

mod asked;
mod compare;
mod limits;
mod mounts;
mod process;
mod warnings;

use std::path::Path;
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use sandbox_core::{Enforcement, EnforcementReport, Plan};
use tokio::time::Instant;

use crate::cgroup::Counts;
use crate::engine::EngineFacts;
pub(crate) use warnings::note;

use asked::Asked;
#[cfg(test)]
pub(crate) use mounts::mounts;
pub(crate) use process::Process;

/// How long a runtime may take from the engine's answer until the agent's program is executed, which takes it milliseconds.
const PATIENCE: Duration = Duration::from_millis(1000);

/// How often we look.
const POLL: Duration = Duration::from_millis(1);

/// Lowers the entries of a report to what the container has.
///
/// `counts` says where the container's control groups and first process are; `body` is what the engine was asked for. Where the
/// container's processes are not the host's (another kernel) only limits are compared.
pub(crate) async fn lower(
    report: &mut EnforcementReport,
    counts: &Counts,
    plan: &Plan,
    facts: &EngineFacts,
    body: &ContainerCreateBody,
) {
    let asked = Asked::of(plan, facts, body);
    let limits = limits::read(
        Some(counts.memory_folder()),
        counts.pids_folder(),
        counts.cpu_folder(),
    );
    let mut found = compare::limits(&asked, &limits);
    if facts.shell.shares_kernel()
        && let Some(pid) = counts.first_process()
    {
        match started(pid).await {
            Some(process) => found.extend(compare::process(&asked, &process)),
            None => tracing::debug!(pid, "the container's first process cannot be looked at"),
        }
    }
    for (capability, enforcement) in found {
        // What is weaker already stays as it is.
        if report
            .get(capability)
            .is_some_and(|entry| is_weaker(&enforcement, entry))
        {
            tracing::warn!(%capability, %enforcement, "the engine has not applied what it was asked for");
            report.set(capability, enforcement);
        }
    }
}

/// What this host's kernel shows of a container's first process, by the number that its engine says. `None` where that is not this
/// container's here: an engine may count processes in another namespace, or on another host.
pub(crate) fn first_process(container: &str, process: i64) -> Option<Process> {
    let folder = format!("/proc/{process}");
    let file = |path: String| std::fs::read(path).ok();
    let names = |bytes: Option<Vec<u8>>| {
        bytes.is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains(container))
    };
    let parent = || {
        let status = std::fs::read_to_string(format!("{folder}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        file(format!("/proc/{}/cmdline", parent.trim()))
    };
    // Its control group has its id, or, without groups of its own, what the engine has started it with.
    let ours = names(file(format!("{folder}/cgroup"))) || names(parent());
    ours.then(|| Process::read(Path::new(&folder))).flatten()
}

fn is_weaker(new: &Enforcement, old: &Enforcement) -> bool {
    let rank = |enforcement: &Enforcement| match enforcement {
        Enforcement::Enforced { .. } => 2,
        Enforcement::Partial { .. } => 1,
        Enforcement::Unenforced { .. } => 0,
    };
    rank(new) < rank(old)
}

/// The container's first process, once it is the agent: before that it is the runtime, which has not given up everything.
async fn started(pid: i32) -> Option<Process> {
    let deadline = Instant::now() + PATIENCE;
    let folder = format!("/proc/{pid}");
    loop {
        let name = std::fs::read_to_string(format!("{folder}/comm")).ok()?;
        if name.trim_end() == "agent" {
            return Process::read(Path::new(&folder));
        }
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(POLL).await;
    }
}
