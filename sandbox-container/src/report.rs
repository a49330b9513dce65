//! Reports what this engine enforces of a plan.

use sandbox_core::{
    Capability, CgroupController, Enforcement, EnforcementReport, Mechanism, Mechanisms, Plan,
};
use sandbox_host::confinement::{self, Kernel, Mode};
use sandbox_lang::packages;

use crate::Family;
use crate::detached::mounts_host_folders;
use crate::egress;
use crate::engine::{EngineFacts, KernelIsolation};
use crate::lowering::{RootFilesystem, StorageSplit};
use crate::packages::cache_unreachable;

/// Reports the enforcement of each demand of a plan. `package_network` is the operator's network
/// for installing packages, if configured.
pub(crate) fn report(
    family: &Family,
    plan: &Plan,
    facts: &EngineFacts,
    kernel: &Kernel,
    mode: Mode,
    storage: &StorageSplit,
    package_network: Option<&str>,
) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    for demand in &plan.demands {
        let entry = match demand.capability {
            Capability::Disk => disk(family, facts, mode, storage),
            Capability::PackageInstallation if !plan.packages.is_empty() => {
                packages::provisioned(package_network)
            }
            capability => entry(capability, plan, facts, kernel, mode, storage),
        };
        report.set(demand.capability, entry);
    }
    report
}

fn entry(
    capability: Capability,
    plan: &Plan,
    facts: &EngineFacts,
    kernel: &Kernel,
    mode: Mode,
    storage: &StorageSplit,
) -> Enforcement {
    match capability {
        Capability::FilesystemReadRoots => {
            let mechanisms = [
                Mechanism::MountNamespace,
                Mechanism::ImageRoot,
                Mechanism::ReadOnlyRootBinds,
            ];
            binds(mechanisms, plan, facts)
        }
        Capability::FilesystemWriteRoots => {
            let root = match storage.root {
                RootFilesystem::ReadOnly => Mechanism::ReadOnlyRoot,
                _ => Mechanism::OwnLayer,
            };
            // Containers do not use Landlock, and a read-only mount does not protect named pipes.
            let open_pipes = !plan.read_roots.is_empty() && facts.kernel_isolation.shares_kernel();
            let mut mechanisms = vec![root, Mechanism::RootBinds];
            mechanisms.extend(open_pipes.then_some(Mechanism::OpenPipes));
            binds(mechanisms, plan, facts)
        }
        Capability::NetworkAccess | Capability::Egress => {
            egress::report(network(kernel), plan, facts)
        }
        Capability::Processes => Enforcement::enforced([
            Mechanism::PidAndIpcNamespaces,
            Mechanism::EndedWithOwnerStream,
        ]),
        Capability::Privileges => privileges(facts, kernel, mode),
        Capability::Timeout => timeout(facts, kernel, mode),
        Capability::Lifetime => lifetime(plan),
        Capability::Memory => memory(facts),
        Capability::Cpus => {
            let quota = limit(
                facts.cpu_quota,
                facts,
                CgroupController::Quota,
                "processors",
            );
            shared_with_runtime(facts)
                .into_iter()
                .fold(quota, Enforcement::and)
        }
        Capability::Pids => pids(facts),
        Capability::PackageInstallation => packages::denied(plan),
        Capability::Packages => match cache_unreachable(facts) {
            None => packages::installed(),
            Some((why, _)) => Enforcement::unenforced(why),
        },
        _ => confinement::by_agent(capability, kernel, mode),
    }
}

/// An engine opens host folders by path. The agent can compare them only on the same kernel.
fn binds(mechanisms: impl Into<Mechanisms>, plan: &Plan, facts: &EngineFacts) -> Enforcement {
    let binds = Enforcement::enforced(mechanisms);
    if !mounts_host_folders(plan) || facts.compares_folders() {
        return binds;
    }
    binds.weakened(
        "the engine opens folders of the host by path, in another kernel than this one: a program that can rename a folder on the way could swap it between check and mount",
    )
}

/// The agent's confinement of each execution, and the layers behind it: the container's seccomp
/// profile, the host's security modules, a separate kernel.
fn privileges(facts: &EngineFacts, kernel: &Kernel, mode: Mode) -> Enforcement {
    let mut layers = Vec::new();
    if facts.kernel_isolation.shares_kernel() {
        // A separate kernel does not apply the host's filters to the code's system calls.
        if facts.seccomp {
            layers.push(Mechanism::ContainerSeccompProfile);
        }
        if facts.apparmor {
            layers.push(Mechanism::AppArmor);
        }
        if facts.selinux {
            layers.push(Mechanism::SeLinux);
        }
    }
    let runtime = || facts.runtime.clone();
    match facts.kernel_isolation {
        KernelIsolation::Namespaces => {}
        KernelIsolation::UserKernel => layers.push(Mechanism::UserSpaceKernel(runtime())),
        KernelIsolation::Machine => layers.push(Mechanism::VirtualMachine(runtime())),
    }
    if facts.user_namespace || facts.rootless {
        layers.push(Mechanism::UserNamespace);
    }
    let of_agent = confinement::privileges(kernel, mode);
    layers.into_iter().fold(of_agent, Enforcement::and)
}

/// Under gVisor the cgroup limit also covers the runtime itself; the report says so.
fn shared_with_runtime(facts: &EngineFacts) -> Option<Mechanism> {
    let shares_kernel = facts.kernel_isolation.shares_kernel();
    (!shares_kernel).then(|| Mechanism::SharedWithRuntime(facts.runtime.clone()))
}

fn pids(facts: &EngineFacts) -> Enforcement {
    let limit = limit(facts.pids_limit, facts, CgroupController::Pids, "processes");
    if facts.kernel_isolation.shares_kernel() {
        return limit;
    }
    let runtime = &facts.runtime;
    limit.weakened(format!(
        "the host counts threads of {runtime}, many for each process: code may have more processes than that"
    ))
}

fn network(kernel: &Kernel) -> Enforcement {
    let namespace = Enforcement::enforced(Mechanism::EmptyNetworkNamespace);
    if kernel.seccomp {
        namespace.and(Mechanism::Seccomp)
    } else {
        namespace.weakened("sockets outside of the namespace (vsock) are open: no seccomp")
    }
}

fn timeout(facts: &EngineFacts, kernel: &Kernel, mode: Mode) -> Enforcement {
    let timeout = confinement::by_agent(Capability::Timeout, kernel, mode);
    if facts.kernel_isolation.shares_kernel() {
        return timeout;
    }
    timeout.weakened(format!(
        "{} may have no child subreapers: a process that leaves its parent then outlives its execution, until the sandbox ends",
        facts.runtime
    ))
}

/// The engines' API has no time limit for containers.
fn lifetime(plan: &Plan) -> Enforcement {
    if plan.detached {
        return Enforcement::partial(
            Mechanism::AgentAndClientClocks,
            "once the creating process has ended, only the agent inside ends the container at that time",
        );
    }
    Enforcement::enforced(Mechanism::AgentAndOwnerClocks)
}

fn memory(facts: &EngineFacts) -> Enforcement {
    let memory = limit(
        facts.memory_limit,
        facts,
        CgroupController::Memory,
        "memory",
    );
    let swap = facts.swap_limit.then_some(Mechanism::SwapLimit);
    // The agent reads the container's counters, so the host relies on its word.
    let counted_inside = facts.kernel_isolation.shares_kernel() && !facts.local;
    let remarks = swap
        .into_iter()
        .chain(counted_inside.then_some(Mechanism::KillsCountedInside))
        .chain(shared_with_runtime(facts));
    let memory = remarks.fold(memory, Enforcement::and);
    if !facts.swap_limit {
        memory
            .weakened("swap is not limited: the kernel does not count it (boot with swapaccount=1)")
    } else if !facts.kernel_isolation.shares_kernel() {
        memory.weakened(format!(
            "{} takes some 50 MiB of it, and beyond it the sandbox ends: an execution's end is then unknown",
            facts.runtime
        ))
    } else {
        memory
    }
}

fn limit(
    works: bool,
    facts: &EngineFacts,
    controller: CgroupController,
    what: &str,
) -> Enforcement {
    if works {
        return Enforcement::enforced(Mechanism::Cgroup(facts.cgroup_limit(controller)));
    }
    Enforcement::unenforced(format!(
        "the engine cannot limit {what} (a rootless engine needs cgroup v2 and delegated controllers)"
    ))
}

fn disk(family: &Family, facts: &EngineFacts, mode: Mode, storage: &StorageSplit) -> Enforcement {
    let unbounded;
    let excess;
    let mut gaps = Vec::new();
    // If memory is limited, the kernel charges inodes to that limit.
    if !family.full_tmpfs && !facts.memory_limit {
        gaps.push("empty files have no bound");
    }
    if let Some(total) = storage.excess() {
        excess = format!("each place has at least a page, all together {total}");
        gaps.push(&excess);
    }
    if storage.host_folders {
        gaps.push("folders of the host, or volumes, are writable without a bound");
    }
    if let RootFilesystem::Unbounded(why) = &storage.root {
        unbounded = format!("changes to the image's files have no bound: {why}");
        gaps.push(&unbounded);
    }
    if mode == Mode::Shared {
        gaps.push("user 0 can also fill /dev (64 MiB)");
    }
    let storage = Enforcement::enforced(storage.mechanisms());
    if gaps.is_empty() {
        storage
    } else {
        storage.weakened(gaps.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::kernel;
    use crate::engine::KernelIsolation;
    use crate::family::samples::{FAMILY, OTHER, TIER};
    use crate::lowering::samples::plan;
    use crate::quota::LayerQuota;
    use sandbox_core::policy::NetworkPolicy;
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};
    use std::time::Duration;

    const SPLIT: Mode = Mode::Split {
        uid: 1000,
        gid: 1000,
    };

    fn report_of(spec: &SandboxSpec, facts: &EngineFacts, mode: Mode) -> EnforcementReport {
        let plan = plan(spec, &CapabilityPolicy::new());
        let quota = match plan.writable_root {
            true => LayerQuota::Missing("no quota on extfs".into()),
            false => LayerQuota::NotNeeded,
        };
        let storage = StorageSplit::new(&plan, &[], &quota);
        let kernel = kernel(TIER, facts).expect("kernel");
        let report = report(FAMILY, &plan, facts, &kernel, mode, &storage, None);
        for demand in &plan.demands {
            assert!(
                report.get(demand.capability).is_some(),
                "{:?}",
                demand.capability
            );
        }
        let json = serde_json::to_value(&report).expect("JSON");
        let read: EnforcementReport = serde_json::from_value(json).expect("a report");
        assert_eq!(read, report);
        report
    }

    fn spec() -> SandboxSpec {
        SandboxSpec::new("sb")
    }

    #[test]
    fn full_engine_enforces_every_default() {
        let report = report_of(&spec(), &EngineFacts::sample(), SPLIT);
        assert_eq!(report.unenforced_capabilities(), []);
        insta::assert_json_snapshot!(report);
    }

    #[test]
    fn additional_layers_are_reported() {
        let facts = EngineFacts {
            apparmor: true,
            user_namespace: true,
            ..EngineFacts::sample()
        };
        let report = report_of(&spec(), &facts, SPLIT);
        let privileges = report.get(Capability::Privileges).expect("an entry");
        for layer in [
            Mechanism::ContainerSeccompProfile,
            Mechanism::AppArmor,
            Mechanism::UserNamespace,
        ] {
            assert!(privileges.mechanisms().contains(&layer), "{privileges}");
        }
    }

    #[test]
    fn separate_kernel_is_reported_with_its_gaps() {
        let facts = EngineFacts {
            runtime: "runsc".into(),
            kernel_isolation: KernelIsolation::UserKernel,
            ..EngineFacts::sample()
        };
        let mut policy = CapabilityPolicy::new();
        policy.subprocess_execution = Some(false);
        let plan = plan(&spec(), &policy);
        let kernel = kernel(TIER, &facts).expect("kernel");
        let storage = StorageSplit::new(&plan, &[], &LayerQuota::NotNeeded);
        let report = report(FAMILY, &plan, &facts, &kernel, SPLIT, &storage, None);
        let entry = |capability| report.get(capability).expect("an entry");
        assert!(
            !kernel.seccomp_notify,
            "the host's kernel cannot be asked about its calls"
        );
        assert_eq!(entry(Capability::SubprocessExecution).status(), "partial");
        assert_eq!(entry(Capability::Pids).status(), "partial");
        for capability in [Capability::Privileges, Capability::Memory, Capability::Cpus] {
            let text = entry(capability).to_string();
            assert!(text.contains("runsc"), "{text}");
            assert!(!text.contains("profile of the container"), "{text}");
        }
    }

    #[test]
    fn rules_are_enforced_unless_something_hinders() {
        let mut policy = CapabilityPolicy::new();
        let rule = "example.org".parse().expect("rule");
        policy.network = Some(NetworkPolicy::Allow(vec![rule]));
        let of = |spec: SandboxSpec, facts: &EngineFacts| {
            let plan = plan(&spec, &policy);
            let kernel = kernel(TIER, facts).expect("kernel");
            egress::report(network(&kernel), &plan, facts)
        };
        let rules = of(spec(), &EngineFacts::sample());
        assert!(rules.is_enforced(), "{rules}");
        assert!(
            rules
                .mechanisms()
                .contains(&Mechanism::HostDialsAllowedNames),
            "{rules}"
        );
        let gvisor = EngineFacts {
            runtime: "runsc".into(),
            kernel_isolation: KernelIsolation::UserKernel,
            ..EngineFacts::sample()
        };
        let old = EngineFacts {
            kernel: (4, 10),
            ..EngineFacts::sample()
        };
        let detached = spec().detached(true).lifetime(Duration::from_secs(60));
        for (spec, facts, reason) in [
            (spec(), &gvisor, "runsc"),
            (spec(), &old, "4.11"),
            (detached, &EngineFacts::sample(), "detached"),
        ] {
            let entry = of(spec, facts);
            assert_eq!(entry.status(), "unenforced");
            assert!(entry.to_string().contains(reason), "{entry}");
        }
    }

    #[test]
    fn missing_engine_features_are_not_reported_as_enforced() {
        let facts = EngineFacts {
            memory_limit: false,
            cpu_quota: false,
            pids_limit: false,
            seccomp: false,
            rootless: true,
            ..EngineFacts::sample()
        };
        let report = report_of(&spec(), &facts, SPLIT);
        let status = |capability| report.get(capability).map(Enforcement::status);
        for capability in [Capability::Memory, Capability::Cpus, Capability::Pids] {
            assert_eq!(status(capability), Some("unenforced"));
        }
        assert_eq!(status(Capability::Privileges), Some("partial"));
        assert_eq!(status(Capability::NetworkAccess), Some("partial"));

        let facts = EngineFacts {
            swap_limit: false,
            ..EngineFacts::sample()
        };
        let memory = report_of(&spec(), &facts, SPLIT);
        assert_eq!(
            memory.get(Capability::Memory).map(Enforcement::status),
            Some("partial")
        );
    }

    #[test]
    fn writable_workspace_makes_disk_partial() {
        let spec = spec().workspace(Workspace::read_write("/work"));
        let report = report_of(&spec, &EngineFacts::sample(), SPLIT);
        assert_eq!(
            report.get(Capability::Disk).map(Enforcement::status),
            Some("partial")
        );
    }

    #[test]
    fn writable_root_without_quota_makes_disk_partial() {
        let report = report_of(&spec().writable_root(true), &EngineFacts::sample(), SPLIT);
        let disk = report.get(Capability::Disk).map(ToString::to_string);
        let disk = disk.expect("an entry");
        assert!(
            disk.contains("partial") && disk.contains("image's files") && disk.contains("extfs"),
            "{disk}"
        );
        let files = report.get(Capability::FilesystemWriteRoots);
        assert_eq!(files.map(Enforcement::status), Some("enforced"));
    }

    #[test]
    fn writable_root_with_quota_keeps_disk_enforced() {
        let plan = plan(&spec().writable_root(true), &CapabilityPolicy::new());
        let storage = StorageSplit::new(&plan, &[], &LayerQuota::Works);
        let disk = disk(FAMILY, &EngineFacts::sample(), SPLIT, &storage);
        assert!(disk.is_enforced(), "{disk}");
        assert!(disk.to_string().contains("quota"), "{disk}");
    }

    #[test]
    fn code_with_the_agents_user_makes_its_limits_partial() {
        let report = report_of(&spec(), &EngineFacts::sample(), Mode::Shared);
        for capability in [Capability::Timeout, Capability::OpenFiles, Capability::Disk] {
            assert_eq!(
                report.get(capability).map(Enforcement::status),
                Some("partial")
            );
        }
        assert_eq!(
            report
                .get(Capability::StdoutMaxBytes)
                .map(Enforcement::status),
            Some("enforced")
        );
    }

    #[test]
    fn empty_files_need_an_inode_or_memory_limit() {
        let plan = plan(&spec(), &CapabilityPolicy::new());
        let storage = StorageSplit::new(&plan, &[], &LayerQuota::NotNeeded);
        let of = |family, memory_limit| {
            let facts = EngineFacts {
                memory_limit,
                ..EngineFacts::sample()
            };
            disk(family, &facts, SPLIT, &storage).status()
        };
        assert_eq!(of(FAMILY, false), "enforced");
        assert_eq!(of(OTHER, true), "enforced");
        assert_eq!(of(OTHER, false), "partial");
    }
}
