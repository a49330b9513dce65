//! Output that is too much.

use sandbox_core::{Captured, ExecResult};

use crate::probes::prelude::*;
use crate::program::Run;

mod flood;
mod stderr_cap;
mod stdout_cap;

/// The probes of this area.
pub static PROBES: &[Probe] = &[flood::PROBE, stderr_cap::PROBE, stdout_cap::PROBE];

/// What is kept of a stream.
const CAP: usize = 65_536;

/// A call that writes 1,000,000 bytes to one of its streams, of which [`CAP`] are kept, and all are counted.
async fn capped(
    stage: &mut Stage,
    call: Call,
    of_host: fn(Run) -> Vec<u8>,
    of_sandbox: fn(ExecResult) -> Captured,
) -> Result<(), Trouble> {
    let written = of_host(host::run(&stage.grounds().program(), &call).await?);
    let failure =
        (written.len() != 1_000_000).then(|| format!("the host got {} bytes", written.len()));
    stage.host_control_was(control("write to the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let result = stage.execute(&call).await.map(|result| {
        let (ok, outcome) = (result.ok(), result.outcome.clone());
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
    stage.attack_was(behavior("write more than the cap", result));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}
