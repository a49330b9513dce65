//! The lifetime of sandboxes whose specification has none.

use std::time::Duration;

use sandbox_core::{SandboxClient, SandboxHandle};

use super::{in_detached, other_lifetime};
use crate::probes::prelude::*;

/// The policy's lifetime. It is none of the defaults.
const OF_POLICY: Duration = Duration::from_secs(90);

/// The time limit of an execution of an attached sandbox, if nothing sets one.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn setup(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.lifetime = Some(OF_POLICY))
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::controls(context).await?;
    let other = context.client()?;
    let attached = context
        .with_sandbox(async |sandbox| {
            let request = sandbox.request(&Call::new(["alive"]));
            told(&other, sandbox.handle(), &request, TIMEOUT).await
        })
        .await;
    let deviation = match if_offered(context, attached) {
        Ok(None) => {
            in_detached(context, None, async |sandbox, name, client| {
                let request = sandbox.request(&Call::new(["alive"]));
                let own = told(client, sandbox.handle(), &request, OF_POLICY).await?;
                if let Some(wrong) = own {
                    return Ok(Some(format!("detached: {wrong}")));
                }
                let later = client.get(name).await?;
                let later = told(client, &later, &request, OF_POLICY).await?;
                Ok(later.map(|wrong| format!("detached, through a second client: {wrong}")))
            })
            .await?
        }
        other => other,
    };
    context.record_attack(behavior("look for the lifetime", deviation));
    context.no_host_effect("the list changes nothing");
    Ok(())
}

/// What is wrong in the list and in the result of an execution.
async fn told(
    client: &SandboxClient,
    sandbox: &SandboxHandle,
    request: &sandbox_core::ExecRequest,
    timeout: Duration,
) -> Deviation {
    let listed = client.list_all().await?;
    let Some(info) = listed.iter().find(|info| info.name == sandbox.name()) else {
        return Ok(Some("it is not listed".to_owned()));
    };
    if let Some(wrong) = other_lifetime(info, OF_POLICY) {
        return Ok(Some(wrong));
    }
    let applied = sandbox.exec(request).await?.timeout;
    Ok((applied != timeout).then(|| format!("an execution may take {applied:?}")))
}
