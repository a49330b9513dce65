//! Limits of the whole sandbox.

use sandbox_core::Plan;

use super::Site;
use crate::cgroup::{AGENT_PROCESSES, Limits};
use crate::host::Isolation;

/// What the control groups limit.
pub(super) fn groups(plan: &Plan, site: &Site<'_>) -> Limits {
    let cgroups = &site.host.cgroups;
    Limits {
        memory: cgroups.has_memory().then(|| plan.memory.as_u64()),
        cpu_milli: cgroups.has_cpu().then(|| plan.cpus.as_milli()),
        pids: cgroups
            .has_pids()
            .then(|| u64::from(plan.pids) + AGENT_PROCESSES),
        // Without a process namespace a group is what finds everything.
        track: site.isolation == Isolation::Landlock,
    }
}

/// What a sampler holds the tree to, where no control group limits memory.
pub(super) fn sampled_memory(plan: &Plan, site: &Site<'_>) -> Option<u64> {
    (!site.host.cgroups.has_memory()).then(|| plan.memory.as_u64())
}
