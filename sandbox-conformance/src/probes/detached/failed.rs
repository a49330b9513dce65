//! A creation that fails must leave nothing, and must not be blamed on another sandbox.

use sandbox_core::ErrorKind;
use sandbox_core::spi::unique_name;

use super::{LIFETIME, alive, remove};
use crate::probes::prelude::*;

/// More processes than a control group can be limited to (`PID_MAX_LIMIT`, 4,194,304). A backend
/// with another limit may accept it.
const TOO_MANY: u32 = 5_000_000;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let name = unique_name("conformance-failed");
    let first = context.admit(
        |policy, spec| {
            policy.pids = Some(TOO_MANY);
            spec.name.clone_from(&name);
            spec.detached = true;
            spec.lifetime = Some(LIFETIME);
        },
        false,
    );
    let deviation = match first.await {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok(Some(format!("under a name that was free: {error}")))
        }
        _ => match context.keep(&name, LIFETIME).await {
            Err(declined) => Err(declined),
            Ok(sandbox) => {
                let client = context.client()?;
                let found = alive(&client, &name, sandbox.program()).await;
                remove(&client, &name).await?;
                Ok(found?)
            }
        },
    };
    context.record_attack(behavior("create two sandboxes", deviation));
    context.no_host_effect("the second sandbox would not get the name of the first");
    Ok(())
}
