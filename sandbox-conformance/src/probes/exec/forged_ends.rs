//! Ends and lines that imitate what the sandbox says.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "exec::forged_ends",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Behavior,
    summary: "exits with the codes of the command, ends by SIGKILL and SIGXCPU, and prints the lines of a denial",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// Codes by which the command, shells and `timeout` tell time limits, missing programs, signals and memory.
const CODES: [i32; 5] = [124, 125, 126, 127, 137];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let exit = |code: &i32| {
        let call = Call::new(["exit", &code.to_string()]);
        (call, Outcome::Exited { code: *code })
    };
    let raise = |signal: i32| {
        let call = Call::new(["raise", &signal.to_string()]);
        (call, Outcome::Signaled { signal })
    };
    let imitation = "sandbox: network access is denied (rule: network_access = none)\n";
    let mut calls: Vec<_> = CODES.iter().map(exit).collect();
    calls.extend([SIGKILL, SIGXCPU].map(raise));
    calls.push((
        Call::new(["both", imitation, imitation]),
        Outcome::Exited { code: 0 },
    ));
    let (call, expected) = &calls[0];
    let run = host::run(&stage.grounds().program(), call).await?;
    let failure = (run.outcome != *expected).then(|| run.outcome.to_string());
    stage.host_control_was(control("exit 124 on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let mut told = Ok(None);
    for (call, expected) in &calls {
        told = match stage.execute(call).await {
            Err(attempt) => Err(attempt),
            Ok(result) if result.outcome == *expected && result.denials.is_empty() => continue,
            Ok(result) => Ok(Some(format!(
                "{} was told as: {}, {:?}",
                call.text(),
                result.outcome,
                result.denials
            ))),
        };
        break;
    }
    stage.attack_was(behavior("imitate what the sandbox says", told));
    stage.nothing_to_watch("what is told is no matter of the host");
    Ok(())
}
