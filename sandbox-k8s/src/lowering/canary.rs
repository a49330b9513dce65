//! The canary pods that test the network policy: the agent alone, as restricted as code in the
//! profile `restricted`.

use k8s_openapi::api::core::v1::{Container, Pod};
use sandbox_core::{ByteSize, Result};

use super::{
    AGENT, CONTAINER, PodInputs, PodProfile, agent_mount, agent_volume, base_pod, container,
    security,
};
use crate::identity::PodIdentity;
use crate::labels;

/// The memory of a canary pod.
const MEMORY: ByteSize = ByteSize::mib(16);
/// Thousandths of a processor.
const CPUS: u32 = 20;
/// Seconds after which a forgotten canary pod ends.
const DEADLINE: i64 = 180;

/// A pod that accepts connections on `port`; `denied` puts it under the policy. It has the labels
/// of the sandbox's pod that it represents, so that the same selectors match.
///
/// # Errors
///
/// If the pod template contradicts our settings.
pub(crate) fn canary(
    inputs: &PodInputs<'_>,
    identity: &PodIdentity,
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
        ..container(MEMORY, CPUS, inputs)
    };
    let mut pod = base_pod(inputs.arch, main, vec![agent_volume(inputs.agent)]);
    pod.metadata.name = Some(identity.pod.clone());
    pod.metadata.annotations = Some(labels::creation_annotations(&identity.creation));
    let names = pod.metadata.labels.get_or_insert_default();
    names.extend(labels::labels(inputs.detached));
    if denied {
        names.insert(labels::NETWORK.to_owned(), labels::DENIED.to_owned());
    }
    if let Some(spec) = &mut pod.spec {
        spec.security_context = Some(security::pod(profile, code));
        // Tells the pod the cluster's name server, which it tries to reach.
        spec.dns_policy = Some("ClusterFirst".to_owned());
        spec.active_deadline_seconds = Some(DEADLINE);
    }
    if let Some(template) = inputs.template {
        template.apply_metadata_and_scheduling(&mut pod)?;
    }
    Ok(pod)
}
