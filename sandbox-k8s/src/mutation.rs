//! Mutants of this backend. Each leaves out one protection but reports it, to show that the suite
//! notices.
//!
//! There is no mutant for privilege escalation or kept capabilities: the agent blocks both for each
//! execution, so nothing would be noticeable.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SeccompProfile, SecurityContext};
use sandbox_agent::protocol::ResourceLimit;
use sandbox_host::Sandbox;

use crate::labels;
use crate::lowering::{CUT_NETWORK, CUT_NETWORK_UNTIL_RULES};

/// `RLIMIT_FSIZE`, the second bound of written data.
const FILE_SIZE: u32 = 1;
/// `RLIMIT_NPROC`.
const PROCESSES: u32 = 6;

/// The protection that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PodMutation {
    /// The agent takes the network down.
    Network,
    /// All seccomp filters: the runtime's, and the agent's for each execution.
    Seccomp,
    /// The runtime's seccomp filter only; the agent's stay.
    Filter,
    /// The memory limit.
    Memory,
    /// The processor limit.
    Processors,
    /// The limit on processes.
    Processes,
    /// The sizes of the writable volumes, and of each file.
    Storage,
    /// The read-only root.
    ReadOnly,
    /// The pod's own PID namespace; the node's is used.
    HostProcesses,
    /// The missing service account token: the pod gets one.
    Token,
    /// The separate user: code runs as root.
    User,
    /// The clean environment: addresses of the cluster's services are added.
    Environment,
    /// The Landlock domain of executions, on nodes with Landlock.
    Landlock,
    /// The separation of the specification's labels from the pod's labels.
    Labels,
    /// The comparison of the created pod with the requested one. The kernel's state inside is still
    /// checked.
    Comparison,
}

impl PodMutation {
    /// The pod and its sandbox without the protection. The report stays.
    pub(crate) fn of(self, mut pod: Pod, mut sandbox: Sandbox) -> (Pod, Sandbox) {
        let spec = pod.spec.get_or_insert_default();
        let confinement = &mut sandbox.settings.confinement;
        let unlimited = |limits: &mut Vec<ResourceLimit>, resource| {
            limits.retain(|limit| limit.resource != resource);
        };
        match self {
            Self::Network => {
                let words = spec.containers.iter_mut();
                for words in words.filter_map(|container| container.command.as_mut()) {
                    words.retain(|word| word != CUT_NETWORK && word != CUT_NETWORK_UNTIL_RULES);
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
                let given = labels::specification_labels(&pod);
                pod.metadata.labels.get_or_insert_default().extend(given);
            }
            // Handled where the comparison is made.
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

/// Removes a limit; the resource request stays.
fn unbounded(spec: &mut PodSpec, resource: &str) {
    let resources = containers(spec).filter_map(|container| container.resources.as_mut());
    for limits in resources.filter_map(|resources| resources.limits.as_mut()) {
        limits.remove(resource);
    }
}
