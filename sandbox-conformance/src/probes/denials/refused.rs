//! Denials of what the caller asks for: specifications, and files that do not fit.

use std::time::Duration;

use sandbox_core::{CapabilityPolicy, Cpus, Denial, DenialKind, Error, SandboxHandle, SandboxSpec};

use super::UNTOLD;
use crate::probes::prelude::*;

/// What is asked for under which policy, and the rule that denies it.
type Excess = (fn(&mut CapabilityPolicy, &mut SandboxSpec), &'static str);

const EXCESSES: &[Excess] = &[
    (
        |policy, spec| {
            policy.memory = Some(ByteSize::mib(64));
            spec.memory = Some(ByteSize::mib(65));
        },
        "memory = 64MiB",
    ),
    (
        |policy, spec| (policy.cpus, spec.cpus) = (Some(Cpus::milli(500)), Some(Cpus::milli(600))),
        "cpus = 0.5",
    ),
    (
        |policy, spec| {
            policy.lifetime = Some(Duration::from_secs(60));
            spec.lifetime = Some(Duration::from_secs(61));
        },
        "lifetime = 60s",
    ),
];

pub(super) async fn specification(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let mut deviation = None;
    for (change, rule) in EXCESSES {
        let told = context.admit(change, true).await;
        let denials = told.as_ref().err().map_or(&[][..], Error::denials);
        let is_right = |denial: &Denial| {
            let is_it = denial.kind == DenialKind::Specification && denial.rule == *rule;
            is_it && denial.times == 1 && !denial.retry_helps
        };
        if !matches!(denials, [denial] if is_right(denial)) {
            deviation = Some(format!("{rule}: {told:?}, {denials:?}"));
            break;
        }
    }
    context.record_attack(behavior("ask for each", Ok(deviation)));
    context.no_host_effect("nothing is created");
    Ok(())
}

/// The sandbox's storage, and a file that does not fit.
pub(super) const DISK: ByteSize = ByteSize::mib(16);
const LENGTH: usize = 40 << 20;

const RULE: &str = "disk = 16MiB";

pub(super) async fn storage(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let content = vec![b'x'; LENGTH];
    let own = context.outside()?.join("large");
    std::fs::write(&own, &content)?;
    context
        .host_control(&Call::new(["digest"]).and(&own))
        .await?;
    context.allow_control(&Call::new(["alive"])).await;
    let [written, copied] = ["written", "copied"].map(|name| context.inside(name));
    let attempt = context
        .with_sandbox(async |sandbox| {
            let handle = sandbox.handle();
            let result = handle.write(&written, content).await;
            let first = told(handle, result, &written).await?;
            let result = handle.copy_in(&own, &copied).await.map(drop);
            let second = told(handle, result, &copied).await?;
            let sum: u64 = handle
                .denials()
                .iter()
                .filter(|one| one.rule == RULE)
                .map(|one| one.times)
                .sum();
            Ok(match (first, second) {
                (Attempt::Blocked { .. }, Attempt::Blocked { .. }) if sum != 2 => {
                    Attempt::unclear(format!("the handle tells of {sum}"))
                }
                (Attempt::Blocked { .. }, second) => second,
                (first, _) => first,
            })
        })
        .await;
    std::fs::remove_file(&own)?;
    let attempt = match if_offered(context, attempt.map(|told| told.map(Some))) {
        Ok(told) => told.unwrap_or_else(|| Attempt::blocked(["told"])),
        Err(declined) => declined,
    };
    if attempt.is_success() && context.is_waived(RULE) {
        context.not_offered(UNTOLD);
    }
    context.record_attack(Step::new(
        "write and copy a file that is too large",
        attempt,
    ));
    context.no_host_effect("the file is the sandbox's own");
    Ok(())
}

/// Whether the result has the denial. Removes what was written.
async fn told(
    sandbox: &SandboxHandle,
    result: sandbox_core::Result<()>,
    path: &str,
) -> sandbox_core::Result<Attempt> {
    if sandbox.exists(path).await? {
        sandbox.remove(path).await?;
    }
    let Err(error) = result else {
        return Ok(Attempt::succeeded());
    };
    let is_it = |denial: &Denial| denial.kind == DenialKind::Storage && denial.rule == RULE;
    Ok(match error.denials() {
        [denial] if is_it(denial) => Attempt::blocked(["told"]),
        other => Attempt::unclear(format!("{error}: {other:?}")),
    })
}
