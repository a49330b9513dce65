//! More processor time than the quota.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "cpus::spinners",
    version: 1,
    subject: Subject::Capability(Capability::Cpus),
    kind: Kind::Isolation,
    summary: "keeps 4 processes busy with a twentieth of a processor",
    setting: |_| Setting::with(|policy| policy.cpus = Some(Cpus::milli(50))),
    permitting: None,
    denials: signs::PROCESSOR,
    run: |stage| Box::pin(run(stage)),
};

/// On a busy host the attack may get little although nothing limits it: the host control wants twice as much, before the
/// attack and after it.
async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let spin = |percent| Call::new(["spin", "4", "1000", percent]);
    stage.allow_control(&Call::new(["alive"])).await;
    for _ in 0..3 {
        let before = stage.host_control(&spin("24")).await?;
        let attack = stage.attack(&spin("12")).await;
        if attack.is_success()
            || before.is_success() && stage.host_control(&spin("24")).await?.is_success()
        {
            break;
        }
    }
    stage.nothing_to_watch("the limit is the sandbox's own");
    Ok(())
}
