//! The limit of processes by control groups, which may stand behind one by `setrlimit`.

use super::group::{BOUNDED, unbounded};
use super::told;
use crate::host_groups::GroupLimit;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::group_pids",
    version: 1,
    subject: Subject::Capability(Capability::Pids),
    kind: Kind::Isolation,
    summary: "looks for a limit of processes by control groups where the report names one",
    setting: |_| Setting::with(|policy| policy.pids = Some(32)),
    permitting: None,
    denials: &told(BOUNDED),
    run: |stage| Box::pin(unbounded(stage, super::GROUP_PIDS, LIMIT, MOST)),
};

const LIMIT: GroupLimit = GroupLimit {
    controller: "pids",
    first: "pids.max",
    second: "pids.max",
};

/// The policy's number, and some for whatever starts the code.
const MOST: u64 = 48;
