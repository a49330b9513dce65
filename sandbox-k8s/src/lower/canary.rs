//! The pods that try the network for those of sandboxes: the agent and nothing else, as narrow as the code of the profile `restricted`.

use k8s_openapi::api::core::v1::{Container, Pod};
use sandbox_core::{ByteSize, Result};

use super::{
    AGENT, CONTAINER, Parts, PodProfile, agent_mount, agent_volume, container, frame, security,
};
use crate::identity::Identity;
use crate::labels;

/// What one needs.
const MEMORY: ByteSize = ByteSize::mib(16);
/// In thousandths of a processor.
const CPUS: u32 = 20;
/// After this many seconds it ends, whoever has forgotten it.
const DEADLINE: i64 = 180;

/// A pod that takes connections to `port`; `denied` puts it under the policy. Its labels are those of the sandbox' pod that it stands for,
/// so that whatever selects the one selects the other.
///
/// # Errors
///
/// Where the pod template says other things than ours.
pub(crate) fn canary(
    parts: &Parts<'_>,
    identity: &Identity,
    port: u16,
    denied: bool,
) -> Result<Pod> {
    let profile = PodProfile::Restricted;
    let code = (identity.user, identity.user);
    let main = Container {
        name: CONTAINER.to_owned(),
        command: Some(vec![
            AGENT.to_owned(),
            "answer".to_owned(),
            port.to_string(),
        ]),
        volume_mounts: Some(vec![agent_mount()]),
        security_context: Some(security::main(profile, code)),
        ..container(MEMORY, CPUS, parts)
    };
    let mut pod = frame(parts.arch, main, vec![agent_volume(parts.agent)]);
    pod.metadata.name = Some(identity.pod.clone());
    pod.metadata.annotations = Some(labels::of_creation(&identity.creation));
    let names = pod.metadata.labels.get_or_insert_default();
    names.extend(labels::labels(parts.detached));
    if denied {
        names.insert(labels::NETWORK.to_owned(), labels::DENIED.to_owned());
    }
    if let Some(spec) = &mut pod.spec {
        spec.security_context = Some(security::pod(profile, code));
        // Tells it of the cluster's name server, which it tries.
        spec.dns_policy = Some("ClusterFirst".to_owned());
        spec.active_deadline_seconds = Some(DEADLINE);
    }
    if let Some(template) = parts.template {
        template.place(&mut pod)?;
    }
    Ok(pod)
}
