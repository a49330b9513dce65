//! What a program wrote before its limit.

use std::time::Duration;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "timeout::output_before",
    version: 1,
    subject: Subject::Capability(Capability::Timeout),
    kind: Kind::Behavior,
    summary: "writes a line, then runs into the limit",
    setting: |_| Setting::with(|policy| policy.timeout = Some(Duration::from_secs(1))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |duration| Call::new(["stubborn", duration]);
    stage.host_control(&call("50")).await?;
    stage.allow_control(&call("50")).await;
    let result = stage.execute(&call("1800")).await.map(|result| {
        let whole = result.stdout.bytes == b"before\n";
        match result.outcome {
            Outcome::TimedOut if whole => None,
            Outcome::TimedOut => Some(format!("kept {:?}", result.stdout_text())),
            other => Some(format!("the program {other}")),
        }
    });
    stage.attack_was(behavior("run into the limit after a line", result));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}
