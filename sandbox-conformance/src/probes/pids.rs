//! The limit of processes.

use crate::probes::measured::{MeasuredLimit, WITHIN, measure};
use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
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
    .setup(|_| SandboxSetup::with(|policy| policy.pids = Some(32))),
    Probe::isolation(
        "pids::measured",
        PIDS,
        "counts its processes with limits of 16, 64 and 200",
        WITHIN,
        |context| Box::pin(measure(context, &PROCESS_LIMIT)),
    ),
];

/// Where code has the agent's user, up to four processes of the sandbox itself count.
const PROCESS_LIMIT: MeasuredLimit = MeasuredLimit {
    values: &[16, 64, 200],
    set: |policy, value| policy.pids = u32::try_from(value).ok(),
    call: |_, most| Call::new(["measure-processes", &most.to_string()]),
    accepted: |value| (value - 4, value),
};
