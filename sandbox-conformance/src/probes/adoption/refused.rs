//! What a policy demands and an adoption cannot enforce.

use sandbox_core::{Capability, CapabilityPolicy, ErrorKind, SandboxHandle};

use crate::foreign::Foreign;
use crate::pool::Adopter;
use crate::probes::prelude::*;

/// A demand, and its capability.
type Demand = (Capability, fn(&mut CapabilityPolicy));

/// Demands of limits that the container does not have.
const LACKING: &[Demand] = &[
    (Capability::Memory, |policy| {
        policy.memory = Some(ByteSize::mib(64));
    }),
    (Capability::Cpus, |policy| {
        policy.cpus = Some(Cpus::milli(500));
    }),
    (Capability::Pids, |policy| policy.pids = Some(32)),
    (Capability::Disk, |policy| {
        policy.disk = Some(ByteSize::mib(16));
    }),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let listener = Listener::tcp4().await?;
    let reach = listener.call("tcp", context.token());
    context.host_control(&reach).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let mut accepted = CapabilityPolicy::new();
    let mut deviation = context
        .adopting(Foreign::default(), async |adopter| {
            // The container's own program is seen.
            let plain = adopter.adopt_under(accepted.clone()).await;
            if let Some(taken) = taken(plain, Capability::Processes) {
                return Ok(Some(taken));
            }
            accepted = adopter.waived(accepted.clone()).await?;
            if let Some(wrong) = lacking(adopter, &accepted).await? {
                return Ok(Some(wrong));
            }
            let mut policy = accepted.clone();
            policy.images = Some(vec!["elsewhere.test/other:*".to_owned()]);
            if !adopter
                .adopt_under(policy)
                .await
                .is_err_and(|error| error.kind() == ErrorKind::PolicyExceeded)
            {
                return Ok(Some("an image that the policy does not allow".to_owned()));
            }
            let sandbox = adopter.adopt(|_| ()).await?;
            let is_reached = sandbox.run(&reach).await?.attempt(None).is_success();
            let declared = sandbox.declared(Capability::NetworkAccess);
            let is_open = declared.is_none_or(|declared| !declared.is_enforced());
            Ok((is_reached && !is_open).then(|| "a network that is declared closed".to_owned()))
        })
        .await?;
    if deviation == Ok(None) {
        let opened = Foreign {
            opened: true,
            ..Foreign::default()
        };
        deviation = context
            .adopting(opened, async |adopter| {
                let adopted = adopter.adopt_under(accepted).await;
                Ok(taken(adopted, Capability::Privileges))
            })
            .await?;
    }
    context.record_attack(behavior(
        "require what the container does not enforce",
        deviation,
    ));
    context.no_host_effect("an adoption that is refused changes nothing");
    Ok(())
}

/// What was accepted that no container without limits can enforce.
async fn lacking(adopter: &Adopter<'_>, accepted: &CapabilityPolicy) -> Deviation {
    for (capability, demand) in LACKING {
        let mut policy = accepted.clone();
        demand(&mut policy);
        let adopted = adopter.adopt_under(policy).await;
        if let Some(taken) = taken(adopted, *capability) {
            return Ok(Some(taken));
        }
        let declared = adopter.adopt(demand).await?.declared(*capability);
        if declared.is_none_or(|declared| declared.is_enforced()) {
            return Ok(Some(format!("{capability} is declared enforced")));
        }
    }
    Ok(None)
}

/// Why this is no refusal of the capability.
fn taken(adopted: sandbox_core::Result<SandboxHandle>, capability: Capability) -> Option<String> {
    let answer = match adopted {
        Ok(_) => "adopted".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotEnforceable => {
            let mut unmet = error.unmet().iter();
            let named = unmet.any(|unmet| unmet.demand.capability == capability);
            if named {
                return None;
            }
            error.to_string()
        }
        Err(error) => error.to_string(),
    };
    Some(format!("a demand of {capability}: {answer}"))
}
