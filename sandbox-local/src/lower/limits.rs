//! Limits of the whole sandbox.

use sandbox_core::Plan;

use super::LoweringContext;
use crate::cgroup::{AGENT_PROCESSES, Limits};
use crate::host::Isolation;

/// The limits of the control groups.
pub(super) fn groups(plan: &Plan, context: &LoweringContext<'_>) -> Limits {
    let cgroups = &context.host.cgroups;
    Limits {
        memory: cgroups.has_memory().then(|| plan.memory.as_u64()),
        cpu_milli: cgroups.has_cpu().then(|| plan.cpus.as_milli()),
        pids: cgroups
            .has_pids()
            .then(|| u64::from(plan.pids) + AGENT_PROCESSES),
        // Without a PID namespace, a group is needed to find every process.
        track: context.isolation == Isolation::Landlock,
    }
}

/// The memory limit in bytes for the sampler, if no control group limits memory.
pub(super) fn sampled_memory(plan: &Plan, context: &LoweringContext<'_>) -> Option<u64> {
    (!context.host.cgroups.has_memory()).then(|| plan.memory.as_u64())
}
