//! Verifies that a container has what the engine was asked for: reads the host kernel's state while
//! only the agent runs in it.
//!
//! An option may get lost on the way to the engine. An engine may accept one without applying it,
//! for example limits it has no rights for. Its configuration may add mounts or share namespaces.
//! No response reports this. So each container on this host is checked before its agent receives
//! its first message. State that the host does not show (another user's processes, a virtual
//! machine) is taken from the engine.

mod compare;
mod limits;
pub(crate) mod mounts;
mod process;
mod requested;
mod warnings;

use std::path::Path;
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use sandbox_core::{Enforcement, EnforcementReport, Plan};
use tokio::time::Instant;

use crate::cgroup::ContainerCgroups;
use crate::engine::EngineFacts;
pub(crate) use warnings::apply_warnings;

#[cfg(test)]
pub(crate) use mounts::parse_mounts;
pub(crate) use process::ObservedProcess;
use requested::RequestedState;

/// How long a runtime may take to execute the agent after the engine's response; it needs
/// milliseconds, and on a busy machine up to a second.
const AGENT_START_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two checks.
const POLL: Duration = Duration::from_millis(1);

/// Weakens the entries of a report to what the container has.
///
/// `cgroups` locates the container's cgroups and first process; `body` is the request to the
/// engine. If the container runs on another kernel, only limits are compared.
pub(crate) async fn weaken_report(
    report: &mut EnforcementReport,
    cgroups: &ContainerCgroups,
    plan: &Plan,
    facts: &EngineFacts,
    body: &ContainerCreateBody,
) {
    let requested = RequestedState::of(plan, facts, body);
    let limits = limits::read(Some(cgroups.memory()), cgroups.pids(), cgroups.cpu());
    let mut findings = compare::limits(&requested, &limits);
    if facts.kernel_isolation.shares_kernel()
        && let Some(pid) = cgroups.first_process()
    {
        match wait_for_agent(pid).await {
            Some(process) => findings.extend(compare::process(&requested, &process)),
            None => tracing::debug!(pid, "cannot read the container's first process in /proc"),
        }
    }
    for (capability, enforcement) in findings {
        // Entries that are already weaker stay.
        if report
            .get(capability)
            .is_some_and(|entry| is_weaker(&enforcement, entry))
        {
            tracing::warn!(%capability, %enforcement, "the engine has not applied a requested limit or isolation");
            report.set(capability, enforcement);
        }
    }
}

/// Reads the state of a container's first process by the engine's pid. `None` if that process is
/// not the container's here: the engine may count processes in another namespace or on another
/// host.
pub(crate) fn first_process(container: &str, process: i64) -> Option<ObservedProcess> {
    let folder = format!("/proc/{process}");
    let file = |path: String| std::fs::read(path).ok();
    let contains_id = |bytes: Option<Vec<u8>>| {
        bytes.is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains(container))
    };
    let parent = || {
        let status = std::fs::read_to_string(format!("{folder}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        file(format!("/proc/{}/cmdline", parent.trim()))
    };
    // Its cgroup path, or without cgroups its parent's command line, contains the container's id.
    let is_containers = contains_id(file(format!("{folder}/cgroup"))) || contains_id(parent());
    is_containers
        .then(|| ObservedProcess::read(Path::new(&folder)))
        .flatten()
}

fn is_weaker(new: &Enforcement, old: &Enforcement) -> bool {
    let rank = |enforcement: &Enforcement| match enforcement {
        Enforcement::Enforced { .. } => 2,
        Enforcement::Partial { .. } => 1,
        Enforcement::Unenforced { .. } => 0,
    };
    rank(new) < rank(old)
}

/// Waits until the container's first process is the agent: before, it is the runtime, which still
/// has privileges.
async fn wait_for_agent(pid: i32) -> Option<ObservedProcess> {
    let deadline = Instant::now() + AGENT_START_TIMEOUT;
    let folder = format!("/proc/{pid}");
    loop {
        let name = std::fs::read_to_string(format!("{folder}/comm")).ok()?;
        if name.trim_end() == "agent" {
            return ObservedProcess::read(Path::new(&folder));
        }
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(POLL).await;
    }
}
