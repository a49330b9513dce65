//! Processor time.

use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[Probe::isolation(
    "cpus::spinners",
    CPUS,
    "keeps 4 processes busy with a twentieth of a processor",
    signs::PROCESSOR,
    |context| Box::pin(spinners(context)),
)
.setup(|_| SandboxSetup::with(|policy| policy.cpus = Some(Cpus::milli(50))))];

/// On a busy host the attack may get little processor time without any limit. The host control
/// demands twice as much, before and after the attack, which must fail twice between them.
async fn spinners(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let spin = |percent| Call::new(["spin", "4", "1000", percent]);
    context.allow_control(&Call::new(["alive"])).await;
    for _ in 0..3 {
        let before = context.host_control(&spin("24")).await?;
        if context.attack(&spin("12")).await.is_success()
            || context.attack(&spin("12")).await.is_success()
            || before.is_success() && context.host_control(&spin("24")).await?.is_success()
        {
            break;
        }
    }
    context.no_host_effect("the limit is the sandbox's own");
    Ok(())
}
