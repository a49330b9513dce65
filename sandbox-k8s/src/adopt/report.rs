//! The enforcement report of a foreign pod: what its specification states, and what the agent does
//! for each execution.

use k8s_openapi::api::core::v1::Volume;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    Capability, CgroupController, Enforcement, EnforcementReport, LimitOwner, Mechanism, Plan,
};
use sandbox_host::adopted;
use sandbox_host::confinement::Kernel;
use sandbox_lang::packages;

use super::ForeignPodContainer;
use super::extra_access::ExtraAccess;
use crate::quantity::thousandths;
use crate::report::limited;

/// The enforcement of each demand of a plan.
pub(super) fn report(
    plan: &Plan,
    container: &ForeignPodContainer,
    kernel: &Kernel,
) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    for demand in &plan.demands {
        report.set(
            demand.capability,
            entry(demand.capability, plan, container, kernel),
        );
    }
    report
}

fn entry(
    capability: Capability,
    plan: &Plan,
    container: &ForeignPodContainer,
    kernel: &Kernel,
) -> Enforcement {
    match capability {
        Capability::FilesystemReadRoots => files(container, false),
        Capability::FilesystemWriteRoots => files(container, true),
        Capability::NetworkAccess | Capability::Egress => network(plan, container),
        Capability::Processes => processes(container),
        Capability::Privileges => match extra_access(container).privileges() {
            Some(why) => Enforcement::unenforced(why),
            None => adopted::entry(capability, kernel),
        },
        Capability::Memory => memory(plan, container),
        Capability::Cpus => cpus(plan, container),
        Capability::Pids => Enforcement::unenforced(
            "a pod's limit of processes is its kubelet's, which does not tell it",
        ),
        Capability::PackageInstallation if plan.packages.is_empty() => {
            match network(plan, container) {
                // A network that should be denied but is not allows package downloads.
                open @ Enforcement::Unenforced { .. } => open,
                _ => packages::denied(plan),
            }
        }
        _ => adopted::entry(capability, kernel),
    }
}

fn extra_access(container: &ForeignPodContainer) -> ExtraAccess {
    ExtraAccess::of(&container.spec, &container.container)
}

/// Whether the container can access folders of its node or volumes of the cluster.
fn files(container: &ForeignPodContainer, writing: bool) -> Enforcement {
    if let Some(why) = extra_access(container).files() {
        return Enforcement::unenforced(why);
    }
    let mounts = container.container.volume_mounts.iter().flatten();
    let counted = mounts.filter(|mount| !writing || mount.read_only != Some(true));
    let volumes = counted.filter_map(|mount| {
        let mut all = container.spec.volumes.iter().flatten();
        all.find(|volume| volume.name == mount.name)
    });
    let (mut of_node, mut of_cluster) = (Vec::new(), Vec::new());
    for volume in volumes {
        if let Some(path) = &volume.host_path {
            of_node.push(path.path.clone());
        } else if volume.empty_dir.is_none() && !(writing && is_read_only(volume)) {
            of_cluster.push(volume.name.clone());
        }
    }
    if !of_node.is_empty() {
        let what = if writing { "can write to" } else { "shows" };
        let folders = of_node.join(", ");
        return Enforcement::unenforced(format!("the container {what} {folders} of its node"));
    }
    let namespace = Enforcement::enforced(Mechanism::ContainerMountNamespace);
    if of_cluster.is_empty() {
        return namespace;
    }
    let names = of_cluster.join(", ");
    namespace.weakened(format!(
        "volumes of the cluster are in view, its account's token where it has one: {names}"
    ))
}

/// Whether a volume is read-only by its type.
fn is_read_only(volume: &Volume) -> bool {
    volume.secret.is_some()
        || volume.config_map.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
}

fn network(plan: &Plan, container: &ForeignPodContainer) -> Enforcement {
    match plan.network {
        _ if container.spec.host_network == Some(true) => {
            Enforcement::unenforced("the pod is in its node's network")
        }
        NetworkPolicy::Full => Enforcement::enforced(Mechanism::PodNetwork),
        _ => Enforcement::unenforced(
            "the pod has a network, and that a NetworkPolicy bounds it was not proven",
        ),
    }
}

fn processes(container: &ForeignPodContainer) -> Enforcement {
    let is = |flag: Option<bool>| flag == Some(true);
    let shared = [
        (container.spec.host_pid, "hostPID"),
        (container.spec.host_ipc, "hostIPC"),
    ];
    let shared = shared.iter().filter(|(flag, _)| is(*flag));
    let shared = shared.map(|(_, name)| *name).collect::<Vec<_>>();
    if !shared.is_empty() {
        return Enforcement::unenforced(format!(
            "the pod shares processes or their memory with its node ({})",
            shared.join(", ")
        ));
    }
    let gap = match is(container.spec.share_process_namespace) {
        true => {
            "the processes of all of the pod's containers are seen, and signalled by the same user"
        }
        false => "the container's own processes are seen, and signalled by the same user",
    };
    Enforcement::partial(
        [
            Mechanism::ContainerPidNamespace,
            Mechanism::EndedWithOwnerStream,
        ],
        gap,
    )
}

/// A limit of the container, in thousandths.
fn limit(container: &ForeignPodContainer, resource: &str) -> Option<u128> {
    let limits = container.container.resources.as_ref()?.limits.as_ref()?;
    thousandths(&limits.get(resource)?.0).filter(|limit| *limit > 0)
}

fn memory(plan: &Plan, container: &ForeignPodContainer) -> Enforcement {
    match limit(container, "memory") {
        None => Enforcement::unenforced("the container has no memory limit"),
        Some(limit) if limit > u128::from(plan.memory.as_u64()) * 1000 => {
            let bytes = limit / 1000;
            Enforcement::unenforced(format!("the container's memory limit is {bytes} bytes"))
        }
        Some(_) => limited(LimitOwner::PodContainer, CgroupController::Memory),
    }
}

fn cpus(plan: &Plan, container: &ForeignPodContainer) -> Enforcement {
    match limit(container, "cpu") {
        None => Enforcement::unenforced("the container has no processor limit"),
        Some(limit) if limit > u128::from(plan.cpus.as_milli()) => Enforcement::unenforced(
            format!("the container may use {limit} thousandths of a processor"),
        ),
        Some(_) => limited(LimitOwner::PodContainer, CgroupController::Quota),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adopt::container::tests::running_container;
    use crate::lowering::tests::plan;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};
    use sandbox_host::seccomp::Arch;
    use serde_json::json;

    fn report_of(spec: serde_json::Value) -> EnforcementReport {
        let plan = plan(&SandboxSpec::new("sb"), &CapabilityPolicy::new());
        let kernel = Kernel {
            arch: Arch::X86_64,
            landlock_abi: 0,
            seccomp: true,
            seccomp_notify: false,
        };
        let report = report(&plan, &running_container(spec), &kernel);
        let json = serde_json::to_value(&report).expect("JSON");
        let read: EnforcementReport = serde_json::from_value(json).expect("a report");
        assert_eq!(read, report);
        report
    }

    fn status(spec: serde_json::Value, capability: Capability) -> &'static str {
        let report = report_of(spec);
        report.get(capability).expect("an entry").status()
    }

    #[test]
    fn default_pod_enforces_little() {
        insta::assert_json_snapshot!(report_of(json!({})));
    }

    #[test]
    fn limits_count_if_at_most_the_plans() {
        for (memory, cpu, expected) in [("64Mi", "500m", "enforced"), ("1Ti", "64", "unenforced")] {
            let limits = json!({"containers": [{
                "name": "main", "resources": {"limits": {"memory": memory, "cpu": cpu}},
            }]});
            for capability in [Capability::Memory, Capability::Cpus] {
                assert_eq!(status(limits.clone(), capability), expected);
            }
        }
    }

    #[test]
    fn exposed_node_and_cluster_volumes_are_reported() {
        let with = |volume: serde_json::Value, read_only: bool| {
            let mut volume = volume;
            volume["name"] = "v".into();
            json!({"volumes": [volume], "containers": [{
                "name": "main",
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": read_only}],
            }]})
        };
        let (read, write) = (
            Capability::FilesystemReadRoots,
            Capability::FilesystemWriteRoots,
        );
        let node = json!({"hostPath": {"path": "/etc"}});
        assert_eq!(status(with(node.clone(), true), read), "unenforced");
        assert_eq!(status(with(node.clone(), true), write), "enforced");
        assert_eq!(status(with(node, false), write), "unenforced");
        let token = json!({"projected": {"sources": []}});
        assert_eq!(status(with(token.clone(), false), read), "partial");
        assert_eq!(status(with(token, false), write), "enforced");
        let claim = json!({"persistentVolumeClaim": {"claimName": "c"}});
        assert_eq!(status(with(claim, false), write), "partial");
        let empty = json!({"emptyDir": {}});
        assert_eq!(status(with(empty, false), read), "enforced");
        let privileged = json!({"containers": [{
            "name": "main", "securityContext": {"privileged": true},
        }]});
        for capability in [read, write, Capability::Privileges] {
            assert_eq!(status(privileged.clone(), capability), "unenforced");
        }
        for shared in ["hostPID", "hostIPC"] {
            let spec = json!({(shared): true});
            assert_eq!(status(spec, Capability::Processes), "unenforced");
        }
    }
}
