//! Lies of this backend: each leaves one thing out and claims it all the same, so that a suite can show that it would notice.
//!
//! That a container may gain privileges, and keeps capabilities, is none of them: the agent refuses both to each execution by
//! itself, and leaves nothing to notice.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SeccompProfile, SecurityContext};
use sandbox_agent::protocol::Limit;
use sandbox_host::Sandbox;

use crate::labels;
use crate::lower::CUT_NETWORK;

/// `RLIMIT_FSIZE`, the second bound of what is written.
const FILE_SIZE: u32 = 1;
/// `RLIMIT_NPROC`.
const PROCESSES: u32 = 6;

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutation {
    /// That the agent takes the network away.
    Network,
    /// The filters of system calls: the runtime's, and the agent's for each execution.
    Seccomp,
    /// The runtime's filter of system calls alone: the agent's are behind it.
    Filter,
    /// The limit of memory.
    Memory,
    /// The limit of processors.
    Processors,
    /// The limit of processes.
    Processes,
    /// The sizes of the writable volumes, and of each file.
    Storage,
    /// That the root may only be read.
    ReadOnly,
    /// A process namespace of its own: the node's is the pod's.
    HostProcesses,
    /// The token of a service account comes with the pod.
    Token,
    /// A user of its own: code is root, as it is in every other such pod.
    User,
    /// The environment: the addresses of the cluster's services come with it.
    Environment,
    /// The Landlock domain of executions, where the node's kernel has Landlock.
    Landlock,
    /// That labels of the specification are no labels of the pod.
    Labels,
    /// The comparison of the pod that was made with the one that was asked for. What the kernel says inside is still looked at.
    Comparison,
}

impl Mutation {
    /// The pod and its sandbox without it. What is reported stays.
    pub(crate) fn of(self, mut pod: Pod, mut sandbox: Sandbox) -> (Pod, Sandbox) {
        let spec = pod.spec.get_or_insert_default();
        let confinement = &mut sandbox.settings.confinement;
        let unlimited = |limits: &mut Vec<Limit>, resource| {
            limits.retain(|limit| limit.resource != resource);
        };
        match self {
            Self::Network => {
                let words = spec.containers.iter_mut();
                for words in words.filter_map(|container| container.command.as_mut()) {
                    words.retain(|word| word != CUT_NETWORK);
                }
            }
            Self::Seccomp => {
                confinement.seccomp.clear();
                unfiltered(spec);
            }
            Self::Filter => unfiltered(spec),
            Self::Memory => unbounded(spec, "memory"),
            Self::Processors => unbounded(spec, "cpu"),
            Self::Processes => unlimited(&mut confinement.limits, PROCESSES),
            Self::Storage => {
                unlimited(&mut confinement.limits, FILE_SIZE);
                let volumes = spec.volumes.iter_mut().flatten();
                for volume in volumes.filter_map(|volume| volume.empty_dir.as_mut()) {
                    volume.size_limit = None;
                }
            }
            Self::ReadOnly => {
                for context in contexts(spec) {
                    context.read_only_root_filesystem = Some(false);
                }
            }
            Self::HostProcesses => spec.host_pid = Some(true),
            Self::Token => spec.automount_service_account_token = Some(true),
            Self::User => confinement.identity = Some((0, 0)),
            Self::Environment => {
                let variables = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
                let named = variables.map(|name| (name.to_owned(), "10.0.0.1".to_owned()));
                sandbox.env.extend(named);
            }
            Self::Landlock => confinement.landlock = None,
            Self::Labels => {
                let given = labels::of_specification(&pod);
                pod.metadata.labels.get_or_insert_default().extend(given);
            }
            // Where it would be made.
            Self::Comparison => {}
        }
        (pod, sandbox)
    }
}

fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    let first = spec.init_containers.iter_mut().flatten();
    first.chain(&mut spec.containers)
}

fn contexts(spec: &mut PodSpec) -> impl Iterator<Item = &mut SecurityContext> {
    containers(spec).filter_map(|container| container.security_context.as_mut())
}

fn unfiltered(spec: &mut PodSpec) {
    let open = SeccompProfile {
        type_: "Unconfined".to_owned(),
        localhost_profile: None,
    };
    for context in contexts(spec) {
        context.seccomp_profile = Some(open.clone());
    }
}

/// A limit that is left out; what is reserved stays.
fn unbounded(spec: &mut PodSpec, resource: &str) {
    let resources = containers(spec).filter_map(|container| container.resources.as_mut());
    for limits in resources.filter_map(|resources| resources.limits.as_mut()) {
        limits.remove(resource);
    }
}
