//! Resource limits of every process in a container, including the agent.

use bollard::models::ResourcesUlimits;
use sandbox_core::Plan;
use sandbox_host::confinement::NO_CORE_FILE;

use crate::engine::HardLimits;

/// Minimum descriptors of a process: the agent needs some for each concurrent execution.
const MIN_OPEN_FILES: u64 = 8192;

/// Processes per user. Without user namespaces, the kernel counts over the whole host, so the value
/// is high. The cgroup is the effective limit; this one is set because setting one requires all.
const MAX_USER_PROCESSES: u64 = 32_768;

/// The limits of every process, capped by the engine's hard limits. Some engines drop all
/// configured defaults if a request sets any limit, so all are set together.
pub(super) fn ulimits(plan: &Plan, hard: HardLimits) -> Vec<ResourcesUlimits> {
    let open_files = u64::from(plan.open_files).max(MIN_OPEN_FILES);
    vec![
        limit("core", NO_CORE_FILE, hard.core_file),
        limit("nofile", open_files, hard.open_files),
        limit("nproc", MAX_USER_PROCESSES, hard.processes),
    ]
}

fn limit(name: &str, value: u64, most: Option<u64>) -> ResourcesUlimits {
    let value = super::signed(value.min(most.unwrap_or(u64::MAX)));
    ResourcesUlimits {
        name: Some(name.into()),
        soft: Some(value),
        hard: Some(value),
    }
}
