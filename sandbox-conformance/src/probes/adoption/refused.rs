//! What a policy demands and an adoption cannot enforce.

use sandbox_core::{
    Capability, CapabilityPolicy, ErrorKind, HostMount, ImageRetention, PullPolicy, SandboxSpec,
    StorageMount, Workspace,
};

use super::taken;
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

/// A field of a specification, and what sets it.
type Field = (&'static str, fn(&mut SandboxSpec));

/// Fields that only a new sandbox can have.
const FIELDS: &[Field] = &[
    ("an image", |spec| spec.image = Some("python:3.11".into())),
    ("a pull", |spec| spec.pull = Some(PullPolicy::Never)),
    ("a retention", |spec| {
        spec.image_retention = ImageRetention::Remove;
    }),
    ("a writable root", |spec| spec.writable_root = true),
    ("a workspace", |spec| {
        spec.workspace = Some(Workspace::read_only("/usr"));
    }),
    ("a mount", |spec| {
        spec.mounts = vec![HostMount::read_only("/usr", "/in")];
    }),
    ("storage", |spec| {
        spec.storage = vec![StorageMount::read_only("lab", "/in")];
    }),
    ("a secret", |spec| spec.secrets = vec!["one".into()]),
    ("rules", |spec| spec.egress = Some(Vec::new())),
    ("a label", |spec| {
        spec.labels.insert("a".into(), "b".into());
    }),
    ("a life of its own", |spec| spec.detached = true),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let listener = Listener::tcp4().await?;
    let reach = listener.call("tcp", context.token());
    context.host_control(&reach).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let mut accepted = CapabilityPolicy::new();
    let deviation = context
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
            for (field, change) in FIELDS {
                let adopted = adopter.adopt_as(accepted.clone(), change).await;
                let kind = adopted.map(drop).map_err(|error| error.kind());
                if kind != Err(ErrorKind::InvalidSpec) {
                    return Ok(Some(format!("adopted with {field}: {kind:?}")));
                }
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
