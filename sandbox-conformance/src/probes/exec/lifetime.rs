//! The end of an attached sandbox's lifetime.

use std::time::{Duration, Instant};

use sandbox_core::ErrorKind;

use crate::probes::detached::ends_in_time::{LATE, LIFETIMES};
use crate::probes::prelude::*;

/// How much too early the end may come.
const EARLY: Duration = Duration::from_millis(200);

/// The policy limits the lifetime, and the specification asks for none.
pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let mut deviation = Ok(Some("no code ran in a sandbox of 25 s".to_owned()));
    for lifetime in LIFETIMES {
        let setup = SandboxSetup::with(|policy| policy.lifetime = Some(lifetime));
        let start = Instant::now();
        let sandbox = match context.once(&setup).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                deviation = Err(context.record_create_error(error));
                break;
            }
        };
        let alive = Call::new(["alive"]);
        if sandbox.execute(&alive).await.is_err() {
            sandbox.handle().kill().await?;
            continue;
        }
        let ended = tokio::time::timeout(lifetime + LATE, sandbox.handle().ended()).await;
        let took = start.elapsed();
        let after = sandbox.execute(&alive).await;
        sandbox.handle().kill().await?;
        deviation = Ok(match (ended, after) {
            (Err(_), _) => Some(format!("it has not ended after {took:?} of {lifetime:?}")),
            (Ok(_), Ok(_)) => Some(format!("code runs after {took:?} of {lifetime:?}")),
            (Ok(_), Err(error)) => {
                let is_end = error.kind() == ErrorKind::SandboxEnded;
                (!is_end || took + EARLY < lifetime)
                    .then(|| format!("after {took:?} of {lifetime:?}: {error}"))
            }
        });
        break;
    }
    context.record_attack(behavior("wait for its end", deviation));
    context.no_host_effect("the end of the sandbox is its own");
    Ok(())
}
