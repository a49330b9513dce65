//! Measures the limits of a policy at several values.

use sandbox_core::CapabilityPolicy;

use crate::probes::prelude::*;
use crate::program::Run;

/// A limit of a policy, which the probe program measures.
pub struct MeasuredLimit {
    /// The values to measure, in the unit of the program's result.
    pub values: &'static [u64],
    /// Sets the limit.
    pub set: fn(&mut CapabilityPolicy, u64),
    /// The call that measures up to a number. It may create files with the name.
    pub call: fn(&str, u64) -> Call,
    /// The least and the most that a sandbox with this value may grant.
    pub accepted: fn(u64) -> (u64, u64),
}

/// How a measured limit shows that it holds.
pub const WITHIN: &[ExpectedDenial] = &[denied("within", "the measured limit")];

/// Measures the limit at each value, in a sandbox of its own, up to twice the value. The host must
/// grant twice the largest one.
pub async fn measure(context: &mut ProbeContext, limit: &MeasuredLimit) -> Result<(), ProbeError> {
    let most = 2 * limit.values.iter().max().copied().unwrap_or_default();
    let name = context.token().to_owned();
    let call = (limit.call)(&name, most);
    let granted = granted(&host::run(&context.fixture().program(), &call).await?);
    let failure = (granted != Some(most)).then(|| format!("the host grants {granted:?}"));
    context.record_host_control(control(&call.text(), failure));
    context.allow_control(&Call::new(["alive"])).await;
    let mut attempt = Attempt::blocked(["within"]);
    let mut action = String::new();
    for value in limit.values {
        let call = (limit.call)(&name, 2 * value);
        action = format!("{} with a limit of {value}", call.text());
        attempt = measure_at(context, limit, *value, &call).await?;
        if !matches!(attempt, Attempt::Blocked { .. }) {
            break;
        }
    }
    context.record_attack(Step::new(action, attempt));
    context.no_host_effect("the limit is the sandbox's own");
    Ok(())
}

async fn measure_at(
    context: &mut ProbeContext,
    limit: &MeasuredLimit,
    value: u64,
    call: &Call,
) -> Result<Attempt, ProbeError> {
    let setup = SandboxSetup::with(|policy| (limit.set)(policy, value));
    let sandbox = match context.once(&setup).await {
        Ok(sandbox) => sandbox,
        Err(error) => return Ok(context.record_create_error(error)),
    };
    let run = sandbox.run(call).await;
    sandbox.handle().kill().await?;
    let (least, most) = (limit.accepted)(value);
    Ok(match run.as_ref().map(granted) {
        Ok(Some(granted)) if granted > most => Attempt::Succeeded {
            value: format!("{granted} with a limit of {value}"),
        },
        Ok(Some(granted)) if granted >= least => Attempt::blocked(["within"]),
        Ok(granted) => Attempt::unclear(format!("{granted:?} with a limit of {value}")),
        Err(error) => Attempt::unclear(error.to_string()),
    })
}

/// How much the program got: its result, or the number of lines that it printed before it was
/// killed.
#[must_use]
pub fn granted(run: &Run) -> Option<u64> {
    match run.attempt(None) {
        Attempt::Succeeded { value } => value.parse().ok(),
        _ if run.outcome == Outcome::OutOfMemory => {
            let lines = run.stdout.iter().filter(|byte| **byte == b'\n').count();
            u64::try_from(lines).ok()
        }
        _ => None,
    }
}
