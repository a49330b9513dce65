//! The resource limits of every process in a container, the agent's too.

use bollard::models::ResourcesUlimits;
use sandbox_core::Plan;
use sandbox_host::confinement::NO_CORE_FILE;

use crate::engine::HardLimits;

/// Descriptors of any process in a container: executions have what the plan says, the agent some for each of as many executions as
/// it takes.
const AGENTS_OPEN_FILES: u64 = 8192;

/// Processes of a user, counted over the whole host where users are the host's. What bounds a sandbox is its control group; this is
/// only there because a limit makes the others necessary.
const USERS_PROCESSES: u64 = 32_768;

/// The limits of every process. One that is given makes some engines forget all those that their configuration gives, which a host
/// may need, so they come together; and no engine can give more than it has.
pub(super) fn ulimits(plan: &Plan, hard: HardLimits) -> Vec<ResourcesUlimits> {
    let open_files = u64::from(plan.open_files).max(AGENTS_OPEN_FILES);
    vec![
        limit("core", NO_CORE_FILE, hard.core_file),
        limit("nofile", open_files, hard.open_files),
        limit("nproc", USERS_PROCESSES, hard.processes),
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
