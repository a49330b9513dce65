//! The limit of swap, of which a host without any says nothing.

use super::group::{BOUNDED, unbounded};
use super::told;
use crate::host_groups::GroupLimit;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::group_swap",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Isolation,
    summary: "looks for a limit of swap where the report names one",
    setting: |_| Setting::with(|policy| policy.memory = Some(ByteSize::mib(64))),
    permitting: None,
    denials: &told(BOUNDED),
    run: |stage| Box::pin(unbounded(stage, super::GROUP_SWAP, LIMIT, MOST)),
};

const LIMIT: GroupLimit = GroupLimit {
    controller: "memory",
    first: "memory.memsw.limit_in_bytes",
    second: "memory.swap.max",
};

/// The policy's memory, with swap or as swap, and what kernels round up.
const MOST: u64 = 65 << 20;
