//! The limit of processes.

use crate::probes::measured::{MeasuredLimit, WITHIN, measure};
use crate::probes::prelude::*;
use crate::program::Run;

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
    .version(2)
    .setup(|_| SandboxSetup::with(|policy| policy.pids = Some(32))),
    Probe::isolation(
        "pids::measured",
        PIDS,
        "counts its processes with limits of 16, 64 and 200",
        WITHIN,
        |context| Box::pin(measured(context)),
    )
    .version(2),
];

/// Where code has a user of its own, the limit is exact.
const OF_OWN_USER: MeasuredLimit = MeasuredLimit {
    values: &[16, 64, 200],
    set: |policy, value| policy.pids = u32::try_from(value).ok(),
    call: |_, most| Call::new(["measure-processes", &most.to_string()]),
    accepted: |value| (value, value),
};

/// Where code has the agent's user, up to four processes of the sandbox itself count.
const OF_SHARED_USER: MeasuredLimit = MeasuredLimit {
    accepted: |value| (value - 4, value),
    ..OF_OWN_USER
};

async fn measured(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let is_shared = context.execute(&Call::new(["parents-user"])).await;
    // Without a sandbox, the measurement says why.
    let is_shared = is_shared.is_ok_and(|result| Run::from(result).attempt(None).is_success());
    let limit = if is_shared {
        &OF_SHARED_USER
    } else {
        &OF_OWN_USER
    };
    measure(context, limit).await
}
