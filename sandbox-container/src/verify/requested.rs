//! The limits and isolation that a container should have, in the kernel's terms.

use bollard::models::ContainerCreateBody;
use sandbox_core::Plan;

use crate::engine::EngineFacts;
use crate::lowering;

/// The limits and isolation that a container should have, in the kernel's terms.
///
/// Limits come from the plan, as in the report. So an option that never reached the engine is
/// detected like one that the engine dropped. Mount points and capabilities are not in the plan;
/// they come from the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestedState {
    /// Bytes.
    pub memory: Option<u64>,
    /// Bytes of memory plus swap.
    pub memory_and_swap: Option<u64>,
    /// Thousandths of a processor.
    pub cpus: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Capabilities allowed in the bounding set, as a bit mask.
    pub capabilities: u64,
    /// Whether a seccomp profile should apply.
    pub seccomp: bool,
    /// Whether the root should be read-only.
    pub read_only_root: bool,
    /// Mount points in the request.
    pub targets: Vec<String>,
}

impl RequestedState {
    pub(super) fn of(plan: &Plan, facts: &EngineFacts, body: &ContainerCreateBody) -> Self {
        let host = body.host_config.clone().unwrap_or_default();
        let number = |value: i64| u64::try_from(value).ok();
        let mounts = host.mounts.into_iter().flatten();
        let targets = mounts.filter_map(|mount| mount.target);
        let tmpfs = host.tmpfs.into_iter().flatten().map(|(folder, _)| folder);
        let memory = Some(plan.memory.as_u64());
        Self {
            memory,
            memory_and_swap: memory,
            cpus: number(lowering::nano_cpus(plan, facts)).map(|nano| nano / 1_000_000),
            pids: number(lowering::processes(plan, facts)),
            capabilities: host
                .cap_add
                .iter()
                .flatten()
                .filter_map(|name| capability_number(name))
                .fold(0, |all, bit| all | 1 << bit),
            seccomp: facts.seccomp,
            read_only_root: !plan.writable_root,
            targets: targets.chain(tmpfs).collect(),
        }
    }
}

/// The kernel's number of a capability that the lowering may add.
fn capability_number(name: &str) -> Option<u32> {
    Some(match name {
        "CHOWN" => 0,
        "DAC_OVERRIDE" => 1,
        "KILL" => 5,
        "SETGID" => 6,
        "SETUID" => 7,
        "SETPCAP" => 8,
        "NET_ADMIN" => 12,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    use super::*;
    use crate::lowering::samples::plan;

    #[test]
    fn limits_come_from_the_plan_and_not_from_the_request() {
        let facts = EngineFacts::sample();
        let of = |spec: SandboxSpec| {
            let plan = plan(&spec, &CapabilityPolicy::new());
            let requested = RequestedState::of(&plan, &facts, &ContainerCreateBody::default());
            (plan, requested)
        };
        let (plan, requested) = of(SandboxSpec::new("sb"));
        assert_eq!(requested.memory, Some(plan.memory.as_u64()));
        assert_eq!(requested.memory_and_swap, requested.memory);
        assert_eq!(requested.cpus, Some(plan.cpus.as_milli().into()));
        assert!(requested.pids >= Some(plan.pids.into()));
        assert!(requested.seccomp && requested.read_only_root);
        let (_, writable) = of(SandboxSpec::new("sb").writable_root(true));
        assert!(!writable.read_only_root);
    }
}
