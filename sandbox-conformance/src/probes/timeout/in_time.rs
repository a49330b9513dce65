//! How late the end comes.

use std::time::Duration;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "timeout::in_time",
    version: 1,
    subject: Subject::Capability(Capability::Timeout),
    kind: Kind::Behavior,
    summary: "is ended at most 500 ms after its limit of 1 s",
    setting: |_| Setting::with(|policy| policy.timeout = Some(LIMIT)),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const LIMIT: Duration = Duration::from_secs(1);

/// How late it may be: a busy host included.
const LATE: Duration = Duration::from_millis(500);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = |duration| Call::new(["stubborn", duration]);
    stage.host_control(&call("50")).await?;
    stage.allow_control(&call("50")).await;
    let result = stage.execute(&call("1800")).await.map(|result| {
        let took = result.duration;
        let in_time = (LIMIT..LIMIT + LATE).contains(&took) && result.outcome == Outcome::TimedOut;
        (!in_time).then(|| format!("{} after {took:?}", result.outcome))
    });
    stage.attack_was(behavior("run into the limit", result));
    stage.nothing_to_watch("time is no matter of the host");
    Ok(())
}
