//! The limit of processes.

use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[Probe::isolation(
    "pids::fork_bomb",
    PIDS,
    "starts 100 processes with a limit of 32",
    signs::PROCESSES,
    |context| {
        limit(
            context,
            Call::new(["spawn", "8"]),
            Call::new(["spawn", "100"]),
        )
    },
)
.setup(|_| SandboxSetup::with(|policy| policy.pids = Some(32)))];
