//! Limits of output.

use sandbox_core::{Captured, ExecResult};

use crate::probes::prelude::*;
use crate::program::Run;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "output::flood",
        STDOUT_MAX_BYTES,
        "writes 128 MiB to standard output with a cap of 64 KiB",
        signs::OUTPUT,
        |context| Box::pin(flood(context)),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(64)))),
    Probe::behavior(
        "output::stderr_cap",
        STDERR_MAX_BYTES,
        "writes 1,000,000 bytes to stderr with a cap of 65,536",
        |context| {
            let call = Call::new(["emit", "0", "1000000"]);
            Box::pin(capped(
                context,
                call,
                |run| run.stderr,
                |result| result.stderr,
            ))
        },
    )
    .setup(|_| SandboxSetup::with(|policy| policy.stderr_max_bytes = Some(ByteSize::kib(64)))),
    Probe::behavior(
        "output::stdout_cap",
        STDOUT_MAX_BYTES,
        "writes 1,000,000 bytes to stdout with a cap of 65,536",
        |context| {
            let call = Call::new(["emit", "1000000", "0"]);
            Box::pin(capped(
                context,
                call,
                |run| run.stdout,
                |result| result.stdout,
            ))
        },
    )
    .setup(|_| SandboxSetup::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(64)))),
];

/// The number of bytes kept of a stream.
const CAP: usize = 65_536;

/// Runs a call that writes 1,000,000 bytes to one stream. [`CAP`] bytes must be kept, and all
/// counted.
async fn capped(
    context: &mut ProbeContext,
    call: Call,
    of_host: fn(Run) -> Vec<u8>,
    of_sandbox: fn(ExecResult) -> Captured,
) -> Result<(), ProbeError> {
    let written = of_host(host::run(&context.fixture().program(), &call).await?);
    let failure =
        (written.len() != 1_000_000).then(|| format!("the host got {} bytes", written.len()));
    context.record_host_control(control("write to the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let result = context.execute(&call).await.map(|result| {
        let (ok, outcome) = (result.success(), result.outcome.clone());
        let kept = of_sandbox(result);
        let right =
            kept.bytes.as_slice() == &written[..CAP] && kept.total == 1_000_000 && kept.truncated();
        let got = format!(
            "kept {} of {} bytes, {outcome}",
            kept.bytes.len(),
            kept.total
        );
        (!right || !ok).then_some(got)
    });
    context.record_attack(behavior("write more than the cap", result));
    context.no_host_effect("output does not affect the host");
    Ok(())
}

async fn flood(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let flood = Call::new(["emit", "134217728", "0"]);
    limit(context, Call::new(["alive"]), flood).await
}
