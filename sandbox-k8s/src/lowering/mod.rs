//! Lowers a plan to a pod. Pure, so that snapshots can show the result.

mod canary;
mod claims;
mod folders;
mod security;
mod storage;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, KeyToPath, Pod, PodDNSConfig, PodSecurityContext, PodSpec,
    ResourceRequirements, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use sandbox_agent::protocol::NAME_SERVER;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    ByteSize, Error, ErrorKind, ImageRetention, Plan, PullPolicy, Result, StoragePlace,
    StorageVolume,
};
use sandbox_host::confinement::Mode;
use sandbox_host::seccomp::Arch;

pub(crate) use canary::canary;
pub(crate) use folders::{FILL_CONTAINER, PodFolder, are_filled};
pub(crate) use storage::PodStorage;

use crate::config::PodProfile;
use crate::egress::{self, EgressFacts};
use crate::identity::PodIdentity;
use crate::network::{self, NetworkDenial};
use crate::template::PodTemplate;
use crate::{TIER, labels};

/// The name of the container that code runs in.
pub(crate) const CONTAINER: &str = "sandbox";
/// The name of the init container that waits until the network is denied.
const WAIT_CONTAINER: &str = "network";
/// The folder of the agent.
const AGENT_FOLDER: &str = "/.sandbox-agent";
/// The path of the agent.
pub(crate) const AGENT: &str = "/.sandbox-agent/agent";
/// The agent's key in the ConfigMap, and its file name.
pub(crate) const AGENT_KEY: &str = "agent";
/// The agent's abstract socket, in the pod's network namespace.
pub(crate) const SOCKET: &str = "@sandbox-agent";
/// The kubelet's world-writable file for a container's last message, on the node's disk.
pub(crate) const MESSAGE_FILE: &str = "/dev/termination-log";
/// Makes the agent take the network down and give up the capability before it serves a client.
pub(crate) const CUT_NETWORK: &str = "--cut-network";
/// Makes the agent take the network down before it serves a client, and give up the capability when
/// it has added the routes of the client's rules.
pub(crate) const CUT_NETWORK_UNTIL_RULES: &str = "--cut-network-until-rules";
/// The name of the agent's volume.
const AGENT_VOLUME: &str = "agent";

/// Container runtimes cannot start a container with less memory.
const MIN_MEMORY: ByteSize = ByteSize::mib(16);
/// Space on the node's disk for the agent's messages. Code writes to memory only.
const NODE_DISK: ByteSize = ByteSize::mib(16);
/// The resource of space on the node's disk.
const EPHEMERAL: &str = "ephemeral-storage";

/// The inputs of a pod besides the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodInputs<'a> {
    pub identity: &'a PodIdentity,
    pub profile: PodProfile,
    pub arch: Arch,
    pub image: &'a str,
    pub pull: PullPolicy,
    /// The name of the ConfigMap with the agent.
    pub agent: &'a str,
    pub storage: &'a PodStorage,
    pub folders: &'a [PodFolder],
    pub template: Option<&'a PodTemplate>,
    /// Whether the sandbox outlives its creator.
    pub detached: bool,
    /// Whether a NetworkPolicy was shown to deny the network, if the network is left to one.
    pub denial: Option<&'a NetworkDenial>,
}

impl<'a> PodInputs<'a> {
    pub(crate) fn egress(&self) -> EgressFacts<'a> {
        EgressFacts {
            profile: self.profile,
            template: self.template,
        }
    }
}

/// Whether code and agent run as different users.
pub(crate) fn mode(plan: &Plan, profile: PodProfile, identity: &PodIdentity) -> Mode {
    let (uid, gid) = code(plan, identity);
    match profile {
        PodProfile::Hardened => Mode::Split { uid, gid },
        PodProfile::Restricted => Mode::Shared,
    }
}

/// The code's user and group.
fn code(plan: &Plan, identity: &PodIdentity) -> (u32, u32) {
    plan.user.unwrap_or((identity.user, identity.user))
}

/// Whether the agent takes the pod's network down before code runs.
pub(crate) fn takes_network_down(plan: &Plan, profile: PodProfile) -> bool {
    profile == PodProfile::Hardened && plan.network != NetworkPolicy::Full
}

/// Whether the pod's network is left to a NetworkPolicy.
pub(crate) fn leaves_network_to_policy(plan: &Plan, profile: PodProfile) -> bool {
    profile == PodProfile::Restricted && plan.network != NetworkPolicy::Full
}

/// The pod of a sandbox.
///
/// # Errors
///
/// `InvalidSpec` and `Unsupported` for plans that no pod can satisfy.
pub(crate) fn pod(plan: &Plan, inputs: &PodInputs<'_>) -> Result<Pod> {
    check(plan, inputs)?;
    let code = code(plan, inputs.identity);
    let mut volumes = vec![agent_volume(inputs.agent)];
    volumes.extend(inputs.storage.volumes());
    volumes.extend(claims::volumes(plan));
    volumes.extend(folders::volumes(inputs.folders));
    let mut mounts = vec![agent_mount()];
    mounts.extend(inputs.storage.mounts());
    mounts.extend(claims::mounts(plan));
    mounts.extend(folders::mounts(inputs.folders));
    let rules = egress::carries_rules(plan, inputs.egress());
    let cut = match (takes_network_down(plan, inputs.profile), rules) {
        (false, _) => None,
        (true, false) => Some(CUT_NETWORK),
        (true, true) => Some(CUT_NETWORK_UNTIL_RULES),
    };
    let main = Container {
        name: CONTAINER.to_owned(),
        command: Some(agent_command(inputs.profile, cut)),
        volume_mounts: Some(mounts),
        security_context: Some(match cut {
            Some(_) => security::network_agent(),
            None => security::main(inputs.profile, code),
        }),
        ..container(plan.memory, plan.cpus.as_milli(), inputs)
    };
    let fill = are_filled(inputs.folders).then(|| {
        // Rules are for code.
        let cut = takes_network_down(plan, inputs.profile).then_some(CUT_NETWORK);
        folders::fill(&main, agent_command(inputs.profile, cut), inputs.folders)
    });
    let steps = wait_for_denial(plan, inputs, code).into_iter().chain(fill);
    let steps = steps.collect::<Vec<_>>();
    let offline = plan.network != NetworkPolicy::Full;
    let mut pod = base_pod(inputs.arch, main, volumes);
    let spec = pod.spec.take().unwrap_or_default();
    let spec = PodSpec {
        init_containers: (!steps.is_empty()).then_some(steps),
        security_context: Some(PodSecurityContext {
            sysctls: rules.then(|| vec![egress::low_ports()]),
            ..claims::with_group(plan, code, security::pod(inputs.profile, code))
        }),
        dns_policy: Some(if offline { "None" } else { "Default" }.to_owned()),
        dns_config: offline.then(|| PodDNSConfig {
            nameservers: Some(vec![match rules {
                true => NAME_SERVER.to_string(),
                // Name lookups fail locally instead of reaching the cluster's name server.
                false => "127.0.0.1".to_owned(),
            }]),
            ..PodDNSConfig::default()
        }),
        active_deadline_seconds: plan
            .lifetime
            .map(|lifetime| i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX).max(1)),
        ..spec
    };
    let mut names = labels::labels(plan.detached);
    if leaves_network_to_policy(plan, inputs.profile) {
        names.insert(labels::NETWORK.to_owned(), labels::DENIED.to_owned());
    }
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: Some(inputs.identity.pod.clone()),
            labels: Some(names),
            annotations: Some(labels::annotations(plan, &inputs.identity.creation)?),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    };
    if let Some(template) = inputs.template {
        template.apply_metadata_and_scheduling(&mut pod)?;
        template.apply_environment(&mut pod);
    }
    Ok(pod)
}

/// The agent's command line. With its own user, the agent closes the last-message file to code
/// and can take the network down before it serves a client.
fn agent_command(profile: PodProfile, cut: Option<&'static str>) -> Vec<String> {
    let mut words = vec![AGENT, "serve", "--listen", SOCKET];
    if profile == PodProfile::Hardened {
        words.extend(["--close", MESSAGE_FILE]);
    }
    words.extend(cut);
    words.into_iter().map(ToOwned::to_owned).collect()
}

/// The init container for a network that a policy denies. It waits until the policy is in force for
/// this pod.
fn wait_for_denial(plan: &Plan, inputs: &PodInputs<'_>, code: (u32, u32)) -> Option<Container> {
    let Some(NetworkDenial::Proven { witnesses }) = inputs.denial else {
        return None;
    };
    if !leaves_network_to_policy(plan, inputs.profile) {
        return None;
    }
    let command = [AGENT, "await-denial", network::POLICY_TIMEOUT_MS].map(ToOwned::to_owned);
    let witnesses = witnesses.iter().map(ToString::to_string);
    Some(Container {
        name: WAIT_CONTAINER.to_owned(),
        command: Some(command.into_iter().chain(witnesses).collect()),
        volume_mounts: Some(vec![agent_mount()]),
        security_context: Some(security::main(inputs.profile, code)),
        ..container(plan.memory, plan.cpus.as_milli(), inputs)
    })
}

/// The fields that all our pods share.
fn base_pod(arch: Arch, main: Container, volumes: Vec<Volume>) -> Pod {
    let spec = PodSpec {
        containers: vec![main],
        volumes: Some(volumes),
        // Keep service account tokens and service addresses out of the pod.
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        host_network: Some(false),
        host_pid: Some(false),
        host_ipc: Some(false),
        share_process_namespace: Some(false),
        hostname: Some("sandbox".to_owned()),
        restart_policy: Some("Never".to_owned()),
        termination_grace_period_seconds: Some(0),
        node_selector: Some(BTreeMap::from([
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            (
                "kubernetes.io/arch".to_owned(),
                architecture(arch).to_owned(),
            ),
        ])),
        ..PodSpec::default()
    };
    Pod {
        spec: Some(spec),
        ..Pod::default()
    }
}

/// The fields that both containers share: the image, whose programs are not started, and the
/// limits, since a pod gets the maximum over its init and main containers.
fn container(memory: ByteSize, milli_cpus: u32, inputs: &PodInputs<'_>) -> Container {
    let requests = BTreeMap::from([
        ("memory".to_owned(), Quantity(memory.as_u64().to_string())),
        (
            "cpu".to_owned(),
            Quantity(format!("{}m", milli_cpus.max(1))),
        ),
        (
            EPHEMERAL.to_owned(),
            Quantity(format!("{}Mi", NODE_DISK.as_u64() >> 20)),
        ),
    ]);
    let mut limits = requests.clone();
    if !inputs.folders.is_empty() {
        let bytes = NODE_DISK
            .as_u64()
            .saturating_add(folders::size(inputs.folders));
        limits.insert(EPHEMERAL.to_owned(), Quantity(bytes.to_string()));
    }
    Container {
        image: Some(inputs.image.to_owned()),
        image_pull_policy: Some(
            match inputs.pull {
                PullPolicy::Never => "Never",
                PullPolicy::Missing => "IfNotPresent",
                PullPolicy::Always => "Always",
            }
            .to_owned(),
        ),
        working_dir: Some("/".to_owned()),
        stdin: Some(false),
        tty: Some(false),
        resources: Some(ResourceRequirements {
            requests: Some(requests),
            limits: Some(limits),
            ..ResourceRequirements::default()
        }),
        // The pod's status then contains the agent's last message.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn agent_volume(name: &str) -> Volume {
    Volume {
        name: AGENT_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: name.to_owned(),
            items: Some(vec![KeyToPath {
                key: AGENT_KEY.to_owned(),
                path: AGENT_KEY.to_owned(),
                mode: Some(0o555),
            }]),
            default_mode: Some(0o555),
            optional: Some(false),
        }),
        ..Volume::default()
    }
}

fn agent_mount() -> VolumeMount {
    VolumeMount {
        name: AGENT_VOLUME.to_owned(),
        mount_path: AGENT_FOLDER.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

fn architecture(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "amd64",
        Arch::Aarch64 => "arm64",
    }
}

/// Refuses requests that pods cannot fulfil, even if the policy accepts missing enforcement: the
/// code would lack what it asked for.
fn check(plan: &Plan, inputs: &PodInputs<'_>) -> Result<()> {
    let refused = |kind, context: &str, fix: &str| {
        Err(Error::new(kind, "create sandbox", context)
            .on(TIER)
            .with_fix(fix))
    };
    let unsupported = ErrorKind::Unsupported;
    if plan.workspace.is_some() && plan.detached {
        return refused(
            unsupported,
            "workspace: a pod works on a copy, which a detached sandbox does not copy back",
            "copy what is needed in and out (`copy_in`, `copy_out`, `sandbox cp`)",
        );
    }
    if !plan.read_roots.is_empty() || !plan.write_roots.is_empty() {
        return refused(
            unsupported,
            "filesystem_read_roots, filesystem_write_roots: a pod cannot access folders of this host",
            "leave them out, or use a tier of this host",
        );
    }
    if !plan.mounts.is_empty() {
        return refused(
            unsupported,
            "mounts: a pod cannot access folders of this host",
            "copy what is needed in (`copy_in`, `sandbox cp`), or set a workspace, which a pod gets as a copy",
        );
    }
    let is_claim = |volume: &StorageVolume| matches!(volume.place, StoragePlace::Claim(_));
    if let Some(volume) = plan.volumes.iter().find(|volume| !is_claim(volume)) {
        return refused(
            unsupported,
            &format!("storage: a cluster has no {}", volume.place),
            "name a claim in the policy's storage, or use another tier",
        );
    }
    let is_good =
        |volume: &StorageVolume| volume.target.to_str().is_some_and(|it| !it.contains(':'));
    if let Some(volume) = plan.volumes.iter().find(|volume| !is_good(volume)) {
        return refused(
            ErrorKind::InvalidSpec,
            &format!(
                "storage: {} has a colon or is not UTF-8",
                volume.target.display()
            ),
            "name another path in the sandbox",
        );
    }
    if plan.image_retention != ImageRetention::Keep {
        return refused(
            ErrorKind::InvalidSpec,
            "image_retention: images belong to the cluster's nodes and are not removed",
            "leave image_retention (--rm-image) out, or use the tier docker or podman",
        );
    }
    if plan.writable_root {
        return refused(
            unsupported,
            "writable_root: not built for pods yet",
            "use the tier docker or podman",
        );
    }
    if plan.memory < MIN_MEMORY {
        let context = format!(
            "memory: {} is less than a container runtime needs, {MIN_MEMORY}",
            plan.memory
        );
        return refused(
            ErrorKind::InvalidSpec,
            &context,
            &format!("ask for {MIN_MEMORY} or more"),
        );
    }
    if code(plan, inputs.identity).0 == 0 {
        return refused(
            unsupported,
            "user: code does not run as root in a pod, since that is also the node's root",
            "leave `user` out, or name another one",
        );
    }
    Ok(())
}

#[cfg(test)]
mod pod_security;
#[cfg(test)]
pub(crate) mod tests;
