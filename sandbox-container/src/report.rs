//! Reports what this engine enforces of a plan.

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Capability, Enforcement, EnforcementReport, Plan};
use sandbox_host::confinement::{self, Kernel, Mode};
use sandbox_lang::packages;

use crate::Family;
use crate::detached::mounts_host_folders;
use crate::engine::EngineFacts;
use crate::lowering::{RootFilesystem, StorageSplit};
use crate::packages::cache_unreachable;

const NOT_IMPLEMENTED: &str = "not built for containers yet";

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
    let cgroup = match facts.cgroup {
        0 => "cgroup".to_owned(),
        version => format!("cgroup v{version}"),
    };
    match capability {
        Capability::FilesystemReadRoots => {
            let mechanism = "mount namespace, image as root, read-only binds of the roots";
            binds(mechanism.to_owned(), plan, facts)
        }
        Capability::FilesystemWriteRoots => {
            let root = match storage.root {
                RootFilesystem::ReadOnly => "read-only root",
                _ => "layer of the sandbox's own over the image",
            };
            // Containers do not use Landlock, and a read-only mount does not protect named pipes.
            let pipes = match plan.read_roots.is_empty() || !facts.kernel_isolation.shares_kernel()
            {
                true => "",
                false => " (named pipes in read roots can be written)",
            };
            binds(format!("{root}, binds of the roots{pipes}"), plan, facts)
        }
        Capability::NetworkAccess | Capability::Egress => match &plan.network {
            NetworkPolicy::Allow(_) => {
                Enforcement::unenforced(format!("rules by host name are {NOT_IMPLEMENTED}"))
            }
            _ => network(kernel),
        },
        Capability::EnvVarAccess => Enforcement::enforced("environment made from nothing"),
        Capability::Processes => {
            Enforcement::enforced("pid and ipc namespaces, ended with the owner's stream")
        }
        Capability::Privileges => privileges(facts, kernel, mode),
        Capability::SubprocessExecution => confinement::subprocess_execution(kernel),
        Capability::Timeout => timeout(facts, kernel, mode),
        Capability::Lifetime => lifetime(plan),
        // The host counts what it takes from the stream.
        Capability::StdoutMaxBytes | Capability::StderrMaxBytes => {
            Enforcement::enforced("bounded capture")
        }
        Capability::Memory => memory(&cgroup, facts),
        Capability::Cpus => limit(
            facts.cpu_quota,
            format!("{cgroup} quota{}", runtime_share(facts)),
            "processors",
        ),
        Capability::Pids => pids(&cgroup, facts),
        Capability::OpenFiles => agent_enforced("RLIMIT_NOFILE", kernel, mode),
        Capability::ArtifactExportPaths => Enforcement::enforced(
            "copied by the agent as the code's user, opened beneath the folder",
        ),
        Capability::PackageInstallation => packages::denied(plan),
        Capability::Packages => match cache_unreachable(facts) {
            None => packages::installed(),
            Some((why, _)) => Enforcement::unenforced(why),
        },
        Capability::Secrets => Enforcement::unenforced(NOT_IMPLEMENTED),
        _ => Enforcement::unenforced("this backend does not know the capability"),
    }
}

/// An engine opens host folders by path. The agent can compare them only on the same kernel.
fn binds(mechanism: String, plan: &Plan, facts: &EngineFacts) -> Enforcement {
    if !mounts_host_folders(plan) || facts.compares_folders() {
        return Enforcement::enforced(mechanism);
    }
    Enforcement::partial(
        mechanism,
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
            layers.push("seccomp profile of the container".to_owned());
        }
        if facts.apparmor {
            layers.push("AppArmor".to_owned());
        }
        if facts.selinux {
            layers.push("SELinux".to_owned());
        }
    } else {
        layers.push(format!("{} ({})", facts.kernel_isolation, facts.runtime));
    }
    if facts.user_namespace || facts.rootless {
        layers.push("user namespace".to_owned());
    }
    let and = |mechanism: String| {
        let all = std::iter::once(mechanism).chain(layers.iter().cloned());
        all.collect::<Vec<_>>().join(", ")
    };
    match confinement::privileges(kernel, mode) {
        Enforcement::Enforced { mechanism } => Enforcement::enforced(and(mechanism)),
        Enforcement::Partial { mechanism, gap } => Enforcement::partial(and(mechanism), gap),
        Enforcement::Unenforced { reason } => Enforcement::unenforced(reason),
    }
}

/// Under gVisor the cgroup limit also covers the runtime itself; the report says so.
fn runtime_share(facts: &EngineFacts) -> String {
    match facts.kernel_isolation.shares_kernel() {
        true => String::new(),
        false => format!(" of {} and the code together", facts.runtime),
    }
}

fn pids(cgroup: &str, facts: &EngineFacts) -> Enforcement {
    let limit = limit(facts.pids_limit, format!("{cgroup} pids"), "processes");
    match limit {
        Enforcement::Enforced { mechanism } if !facts.kernel_isolation.shares_kernel() => {
            let runtime = &facts.runtime;
            let gap = format!(
                "the host counts threads of {runtime}, many for each process: code may have more processes than that"
            );
            Enforcement::partial(mechanism, gap)
        }
        limit => limit,
    }
}

fn network(kernel: &Kernel) -> Enforcement {
    let mechanism = "network namespace without interfaces";
    if kernel.seccomp {
        Enforcement::enforced(format!("{mechanism}, seccomp"))
    } else {
        Enforcement::partial(
            mechanism,
            "sockets outside of the namespace (vsock) are open: no seccomp",
        )
    }
}

fn timeout(facts: &EngineFacts, kernel: &Kernel, mode: Mode) -> Enforcement {
    let mechanism = "agent, host clock";
    match agent_enforced(mechanism, kernel, mode) {
        Enforcement::Enforced { mechanism } if !facts.kernel_isolation.shares_kernel() => {
            let gap = format!(
                "{} may have no child subreapers: a process that leaves its parent then outlives its execution, until the sandbox ends",
                facts.runtime
            );
            Enforcement::partial(mechanism, gap)
        }
        enforcement => enforcement,
    }
}

/// The engines' API has no time limit for containers.
fn lifetime(plan: &Plan) -> Enforcement {
    if plan.detached {
        return Enforcement::partial(
            "agent's clock, and the next client's",
            "nobody outside ends the container at that time once its creator has gone",
        );
    }
    Enforcement::enforced(
        "agent's clock, and the owner's, who removes the container; ended with the owner",
    )
}

fn agent_enforced(mechanism: &str, kernel: &Kernel, mode: Mode) -> Enforcement {
    match confinement::disturbance(kernel, mode) {
        None => Enforcement::enforced(mechanism),
        Some(gap) => Enforcement::partial(mechanism, gap),
    }
}

fn memory(cgroup: &str, facts: &EngineFacts) -> Enforcement {
    let suffix = match facts.kernel_isolation.shares_kernel() {
        // The agent reads the container's counters, so the host relies on its word.
        true if !facts.local => ", kills counted inside".to_owned(),
        true => String::new(),
        false => runtime_share(facts),
    };
    match (facts.memory_limit, facts.swap_limit) {
        (true, true) if !facts.kernel_isolation.shares_kernel() => Enforcement::partial(
            format!("{cgroup} memory, swap included{suffix}"),
            format!(
                "{} takes some 50 MiB of it, and beyond it the sandbox ends: an execution's end is then unknown",
                facts.runtime
            ),
        ),
        (true, true) => Enforcement::enforced(format!("{cgroup} memory, swap included{suffix}")),
        (true, false) => Enforcement::partial(
            format!("{cgroup} memory{suffix}"),
            "swap is not limited: the kernel does not count it (boot with swapaccount=1)",
        ),
        (false, _) => limit(false, String::new(), "memory"),
    }
}

fn limit(works: bool, mechanism: String, what: &str) -> Enforcement {
    if works {
        return Enforcement::enforced(mechanism);
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
        gaps.push("folders of the host are writable without a bound");
    }
    if let RootFilesystem::Unbounded(why) = &storage.root {
        unbounded = format!("changes to the image's files have no bound: {why}");
        gaps.push(&unbounded);
    }
    if mode == Mode::Shared {
        gaps.push("user 0 can also fill /dev (64 MiB)");
    }
    if gaps.is_empty() {
        Enforcement::enforced(storage.describe())
    } else {
        Enforcement::partial(storage.describe(), gaps.join(", "))
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
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

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
        let privileges = report
            .get(Capability::Privileges)
            .expect("an entry")
            .to_string();
        for layer in [
            "seccomp profile of the container",
            "AppArmor",
            "user namespace",
        ] {
            assert!(privileges.contains(layer), "{privileges}");
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
