//! Reports what is enforced in a foreign container: by its own options, and by the agent for each
//! execution.

use std::path::Path;

use bollard::models::{HostConfig, MountPoint};
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    ByteSize, Capability, CgroupController, Enforcement, EnforcementReport, LimitOwner, Mechanism,
    Plan,
};
use sandbox_host::adopted;
use sandbox_host::confinement::Kernel;
use sandbox_lang::packages;

use super::ForeignContainer;
use super::holes::Hole;
use crate::engine::{Engine, EngineFacts};

/// Reports the enforcement of each demand of a plan.
pub(super) fn report(
    plan: &Plan,
    container: &ForeignContainer,
    engine: &Engine,
    kernel: &Kernel,
    holes: &[Hole],
) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    for demand in &plan.demands {
        let entry = entry(demand.capability, plan, container, kernel, &engine.facts);
        let entry = weakened_by(demand.capability, holes).unwrap_or(entry);
        report.set(demand.capability, entry);
    }
    report
}

/// The options that disable a capability; `None` if there are none.
fn weakened_by(capability: Capability, holes: &[Hole]) -> Option<Enforcement> {
    let holes = holes.iter().filter(|hole| hole.of.contains(&capability));
    let names = holes.map(|hole| hole.name.as_str()).collect::<Vec<_>>();
    (!names.is_empty()).then(|| Enforcement::unenforced(names.join("; ")))
}

fn entry(
    capability: Capability,
    plan: &Plan,
    container: &ForeignContainer,
    kernel: &Kernel,
    facts: &EngineFacts,
) -> Enforcement {
    let host = &container.host;
    match capability {
        Capability::FilesystemReadRoots => files(plan, container, false),
        Capability::FilesystemWriteRoots => files(plan, container, true),
        Capability::NetworkAccess | Capability::Egress => network(plan, host, kernel),
        Capability::Processes => match host.pid_mode.as_deref().unwrap_or_default() {
            "" | "private" => Enforcement::partial(
                [
                    Mechanism::ContainerPidNamespace,
                    Mechanism::EndedWithOwnerStream,
                ],
                "the container's own processes are seen, and signalled by the same user",
            ),
            mode => Enforcement::unenforced(format!("the container's pid mode is {mode}")),
        },
        Capability::Memory => memory(plan, host, facts),
        Capability::Cpus => cpus(plan, host, facts),
        Capability::Pids => pids(plan, host, facts),
        Capability::PackageInstallation if plan.packages.is_empty() => packages::denied(plan),
        _ => adopted::entry(capability, kernel),
    }
}

/// Whether the container shows more of the host than the plan allows.
fn files(plan: &Plan, container: &ForeignContainer, writing: bool) -> Enforcement {
    let allowed = |source: &str| {
        let roots = plan.write_roots.iter();
        let roots = roots.chain(plan.read_roots.iter().filter(|_| !writing));
        roots
            .into_iter()
            .any(|root| Path::new(source).starts_with(root))
    };
    let is_relevant = |mount: &&MountPoint| !writing || mount.rw != Some(false);
    let is = |mount: &MountPoint, kind: &str| mount.typ.as_deref() == Some(kind);
    // Mounts of unknown types count as the host's.
    let of_host = |mount: &MountPoint| !is(mount, "volume") && !is(mount, "tmpfs");
    let mounts = container.mounts.iter().filter(is_relevant);
    let sources = mounts
        .clone()
        .filter(|mount| of_host(mount))
        .filter_map(|mount| mount.source.as_deref())
        .filter(|source| !allowed(source))
        .collect::<Vec<_>>();
    if !sources.is_empty() {
        let what = if writing { "can write to" } else { "shows" };
        let sources = sources.join(", ");
        return Enforcement::unenforced(format!("the container {what} {sources} of the host"));
    }
    let namespace = Enforcement::enforced(Mechanism::ContainerMountNamespace);
    let volumes = mounts
        .filter(|mount| is(mount, "volume"))
        .filter_map(|mount| mount.name.as_deref().or(mount.destination.as_deref()))
        .collect::<Vec<_>>();
    if volumes.is_empty() {
        namespace
    } else {
        let volumes = volumes.join(", ");
        namespace.weakened(format!("volumes of the engine are in view: {volumes}"))
    }
}

fn network(plan: &Plan, host: &HostConfig, kernel: &Kernel) -> Enforcement {
    let mode = host.network_mode.as_deref().unwrap_or("default");
    if mode != "none" {
        return Enforcement::unenforced(format!("the container's network is {mode}"));
    }
    let namespace = Enforcement::enforced(Mechanism::ContainerEmptyNetworkNamespace);
    match plan.network {
        NetworkPolicy::Allow(_) => {
            Enforcement::unenforced("the container has no network, and none can be given to it")
        }
        _ if kernel.seccomp => namespace.and(Mechanism::Seccomp),
        _ => namespace.weakened("sockets outside of the namespace (vsock) are open: no seccomp"),
    }
}

/// By the container's own control group.
fn limited(facts: &EngineFacts, controller: CgroupController) -> Enforcement {
    let limit = facts.cgroup_limit(controller);
    Enforcement::enforced(Mechanism::Cgroup(limit.owned_by(LimitOwner::Container)))
}

fn memory(plan: &Plan, host: &HostConfig, facts: &EngineFacts) -> Enforcement {
    let limited = limited(facts, CgroupController::Memory);
    let limit = host.memory.and_then(|limit| u64::try_from(limit).ok());
    match limit.filter(|limit| *limit > 0).map(ByteSize::bytes) {
        None => Enforcement::unenforced("the container has no memory limit"),
        Some(limit) if limit > plan.memory => {
            Enforcement::unenforced(format!("the container's memory limit is {limit}"))
        }
        Some(_) if host.memory_swap == host.memory => limited.and(Mechanism::SwapLimit),
        Some(_) => limited.weakened("the container may swap beyond it"),
    }
}

fn cpus(plan: &Plan, host: &HostConfig, facts: &EngineFacts) -> Enforcement {
    let some = |value: Option<i64>| value.filter(|value| *value > 0);
    let milli = match (some(host.nano_cpus), some(host.cpu_quota)) {
        (Some(nano), _) => Some(nano / 1_000_000),
        // The kernel's default period if the container sets none.
        (None, Some(quota)) => Some(quota * 1000 / some(host.cpu_period).unwrap_or(100_000)),
        (None, None) => None,
    };
    match milli {
        None => Enforcement::unenforced("the container has no processor limit"),
        Some(milli) if milli > i64::from(plan.cpus.as_milli()) => Enforcement::unenforced(format!(
            "the container may use {milli} thousandths of a processor"
        )),
        Some(_) => limited(facts, CgroupController::Quota),
    }
}

fn pids(plan: &Plan, host: &HostConfig, facts: &EngineFacts) -> Enforcement {
    match host.pids_limit.filter(|limit| *limit > 0) {
        None => Enforcement::unenforced("the container has no limit of processes"),
        Some(limit) if limit > i64::from(plan.pids) => {
            Enforcement::unenforced(format!("the container may have {limit} processes"))
        }
        Some(_) => limited(facts, CgroupController::Pids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adopt::holes::holes;
    use crate::family::samples::TIER;
    use crate::lowering::samples::plan;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    fn statuses(
        container: &ForeignContainer,
        policy: &CapabilityPolicy,
    ) -> Vec<(Capability, &'static str)> {
        let plan = plan(&SandboxSpec::new("sb"), policy);
        let facts = EngineFacts::sample();
        let kernel = crate::backend::kernel(TIER, &facts).expect("kernel");
        let entries = plan.demands.iter().map(|demand| {
            let entry = entry(demand.capability, &plan, container, &kernel, &facts);
            let entry = weakened_by(demand.capability, &holes(container)).unwrap_or(entry);
            (demand.capability, entry.status())
        });
        entries.collect()
    }

    fn bind(source: &str, rw: bool) -> MountPoint {
        MountPoint {
            typ: Some("bind".into()),
            source: Some(source.into()),
            rw: Some(rw),
            ..MountPoint::default()
        }
    }

    fn status(
        container: &ForeignContainer,
        policy: &CapabilityPolicy,
        capability: Capability,
    ) -> &'static str {
        let all = statuses(container, policy);
        let entry = all.iter().find(|(known, _)| *known == capability);
        entry.expect("an entry").1
    }

    #[test]
    fn default_container_enforces_little() {
        let container = ForeignContainer {
            host: HostConfig {
                network_mode: Some("bridge".into()),
                ..HostConfig::default()
            },
            ..ForeignContainer::default()
        };
        let statuses = statuses(&container, &CapabilityPolicy::new());
        let with = |status| {
            let all = statuses.iter().filter(|(_, known)| *known == status);
            all.map(|(capability, _)| *capability).collect::<Vec<_>>()
        };
        use Capability::*;
        assert_eq!(
            with("unenforced"),
            [NetworkAccess, Memory, Cpus, Pids, Disk]
        );
        assert_eq!(
            with("partial"),
            [EnvVarAccess, Processes, Timeout, OpenFiles]
        );
    }

    #[test]
    fn limit_is_enforced_if_it_is_no_higher_than_the_plans() {
        let limited = |memory: i64, milli: i64, pids: i64| ForeignContainer {
            host: HostConfig {
                network_mode: Some("none".into()),
                memory: Some(memory),
                memory_swap: Some(memory),
                nano_cpus: Some(milli * 1_000_000),
                pids_limit: Some(pids),
                ..HostConfig::default()
            },
            ..ForeignContainer::default()
        };
        let policy = CapabilityPolicy::new();
        let capabilities = [Capability::Memory, Capability::Cpus, Capability::Pids];
        for capability in capabilities {
            let low = limited(64 << 20, 500, 100);
            assert_eq!(status(&low, &policy, capability), "enforced");
            let high = limited(1 << 40, 64_000, 100_000);
            assert_eq!(status(&high, &policy, capability), "unenforced");
        }
        let network = status(&limited(1, 1, 1), &policy, Capability::NetworkAccess);
        assert_eq!(network, "enforced");
    }

    #[test]
    fn mounts_must_be_within_the_allowed_roots() {
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_read_roots = Some(vec!["/data".into()]);
        let of = |mounts: &[MountPoint], capability| {
            let container = ForeignContainer {
                mounts: mounts.to_vec(),
                ..ForeignContainer::default()
            };
            status(&container, &policy, capability)
        };
        let (read, write) = (
            Capability::FilesystemReadRoots,
            Capability::FilesystemWriteRoots,
        );
        assert_eq!(of(&[bind("/data/x", false)], read), "enforced");
        assert_eq!(of(&[bind("/data/x", false)], write), "enforced");
        assert_eq!(of(&[bind("/data/x", true)], write), "unenforced");
        assert_eq!(of(&[bind("/database", false)], read), "unenforced");
        let volume = MountPoint {
            typ: Some("volume".into()),
            name: Some("cache".into()),
            ..MountPoint::default()
        };
        assert_eq!(of(&[volume], read), "partial");
        let container = ForeignContainer {
            host: HostConfig {
                privileged: Some(true),
                ..HostConfig::default()
            },
            ..ForeignContainer::default()
        };
        for capability in [read, write, Capability::Privileges] {
            assert_eq!(status(&container, &policy, capability), "unenforced");
        }
    }
}
