//! Shared memory that an execution leaves behind.

use crate::host_fixture::random_name;
use crate::probes::prelude::*;

pub(super) const LIMITED: &[ExpectedDenial] = &[
    denied("out_of_memory", "memory limit of the sandbox"),
    denied("ENOMEM", "memory limit of the process"),
    denied("ENOSPC", "limit of the IPC namespace"),
    denied("EPERM", "seccomp: there are no such segments"),
    denied("removed", "an execution's segments are removed at its end"),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    // Keys are signed 32-bit numbers, and 0 is not a key.
    let key = || {
        let random = u32::from_str_radix(&random_name()[..8], 16).map(|key| key >> 1 | 1);
        random.map(|key| key.to_string())
    };
    let (first, second) = (key()?, key()?);
    let segment = |key: &str| Call::new(["segment", key, "24"]);
    let program = context.fixture().program();
    host::run(&program, &segment(&first)).await?;
    context.host_control(&segment(&second)).await?;
    unshare(context, &[&first, &second]).await?;
    context.allow_control(&Call::new(["alive"])).await;
    context.attack(&segment(&first)).await;
    // Without System V shared memory, the first execution fails.
    if context.attack_succeeded() && context.attack(&segment(&second)).await.is_success() {
        let find = Call::new(["shared", "memory", &first]);
        let gone = context.execute(&find).await.map(|result| {
            let attempt = crate::program::Run::from(result).attempt(None);
            !attempt.is_success()
        });
        if gone == Ok(true) {
            context.record_attack(Step::new(find.text(), Attempt::blocked(["removed"])));
        }
    }
    // If the segments are on the host.
    unshare(context, &[&first, &second]).await?;
    context.end_sandbox().await?;
    context.no_host_effect("the limit is the sandbox's own");
    Ok(())
}

async fn unshare(context: &ProbeContext, keys: &[&str]) -> Result<(), ProbeError> {
    for key in keys {
        let call = Call::new(["unshare", "memory", key]);
        host::run(&context.fixture().program(), &call).await?;
    }
    Ok(())
}
