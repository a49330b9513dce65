//! Processor time.

use sandbox_core::Stdin;

use crate::host_cgroups;
use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "cpus::quota",
        CPUS,
        "reads the quota of a process's control group on the host, with 0.05, 0.25 and 1.5 processors",
        |context| Box::pin(quota(context)),
    ),
    Probe::isolation(
        "cpus::spinners",
        CPUS,
        "keeps 4 processes busy with a twentieth of a processor",
        signs::PROCESSOR,
        |context| Box::pin(spinners(context)),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.cpus = Some(Cpus::milli(50)))),
];

/// In thousandths of a processor. Measuring shows a wrong factor, and this one a wrong rounding.
const QUOTAS: [u32; 3] = [50, 250, 1500];

async fn quota(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let mut deviation = Ok(None);
    for milli in QUOTAS {
        let setup = SandboxSetup::with(|policy| policy.cpus = Some(Cpus::milli(milli)));
        let sandbox = match context.once(&setup).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                deviation = Err(context.record_create_error(error));
                break;
            }
        };
        let token = format!("{}-{milli}", context.token());
        let request = sandbox.request(&Call::new(["sleep", &token, "9000"]));
        let running = sandbox.handle().start(&request, Stdin::Null).await;
        let seen = host::wait_for_process(&token).await?;
        let found = seen.map(host_cgroups::processors).transpose()?;
        drop(running?);
        sandbox.handle().kill().await?;
        deviation = match found {
            None => Err(Attempt::unclear("the process was never seen on the host")),
            Some(Some(found)) if found == milli => continue,
            Some(found) => Ok(Some(format!("{found:?} thousandths instead of {milli}"))),
        };
        break;
    }
    context.record_attack(behavior("read the quota", deviation));
    context.no_host_effect("the probe only reads the quota on the host");
    Ok(())
}

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
