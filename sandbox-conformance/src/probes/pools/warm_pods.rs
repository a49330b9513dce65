//! Sandboxes that must not come from pods that were started ahead.

use std::time::Duration;

use sandbox_core::{Capability, PullPolicy, SandboxClient, SandboxHandle, SandboxSpec};

use super::Template;
use crate::probes::prelude::*;
use crate::warm_pods::WarmPods;

/// Longer than the probe takes. It would begin with the pod, not with the sandbox.
const LIFETIME: Duration = Duration::from_secs(120);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let pods = context.warm_pods()?;
    let compared = match (Template::of(context).await, pods) {
        (Err(declined), _) => Err(declined),
        // Pods are a cluster's. Elsewhere nothing is started ahead without `SandboxPool`.
        (Ok(_), None) => Ok(Ok(None)),
        (Ok(template), Some(pods)) => {
            let compared = compare(&*pods, &template).await;
            template.client.settle().await;
            Ok(compared)
        }
    };
    let deviation = if_offered(context, compared);
    context.record_attack(behavior("create sandboxes beside warm pods", deviation));
    context.no_host_effect("the attack is on the pods alone");
    Ok(())
}

async fn compare(pods: &dyn WarmPods, template: &Template) -> Deviation {
    let policy = template.client.policy().clone();
    let client = |policy| SandboxClient::with_backend(pods.backend(), policy);
    let usual = client(policy.clone())?;
    if pods.prepare(&usual.plan(&template.spec)?).await? != 1 {
        return Ok(Some("no pod was started ahead".to_owned()));
    }
    let mut with_lifetime = policy;
    with_lifetime.lifetime = Some(LIFETIME);
    let limited = client(with_lifetime)?;
    let mut own = template.spec.clone();
    own.lifetime = Some(LIFETIME);
    let mut detached = template.spec.clone();
    detached.detached = true;
    let pulled = template.spec.clone().pull(PullPolicy::Always);
    for (what, client, spec) in [
        ("a lifetime", &usual, &own),
        ("the policy's lifetime", &limited, &template.spec),
        ("other clients", &usual, &detached),
        ("an image that is always pulled", &usual, &pulled),
    ] {
        if pods.prepare(&client.plan(spec)?).await? != 0 {
            return Ok(Some(format!(
                "a pod for sandboxes with {what} was started ahead"
            )));
        }
    }
    for (what, client, spec) in [
        ("its own lifetime", &usual, &own),
        ("the policy's lifetime", &limited, &template.spec),
    ] {
        let sandbox = create(client, spec).await?;
        let is_warm = is_warm(&sandbox);
        sandbox.kill().await?;
        if is_warm || pods.claimed() != 0 {
            return Ok(Some(format!("a sandbox with {what} has a pod of the pool")));
        }
    }
    let sandbox = create(&usual, &template.spec).await?;
    let is_claimed = is_warm(&sandbox) && pods.claimed() == 1;
    sandbox.kill().await?;
    Ok((!is_claimed).then(|| "no sandbox has a pod of the pool".to_owned()))
}

/// While its pod fits on no node, tries again: pods of other probes end.
async fn create(client: &SandboxClient, spec: &SandboxSpec) -> sandbox_core::Result<SandboxHandle> {
    let deadline = fits_until();
    loop {
        let created = client.create(spec).await;
        if !fits_later(&created, deadline).await {
            return created;
        }
    }
}

/// Whether the report says that the pod was started ahead.
fn is_warm(sandbox: &SandboxHandle) -> bool {
    let processes = sandbox.enforcement().get(Capability::Processes);
    processes.is_some_and(|it| it.to_string().contains("warm pool"))
}
