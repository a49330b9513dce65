//! Reports what this engine enforces of a plan.

use sandbox_core::{
    Capability, CgroupController, Enforcement, EnforcementReport, Mechanism, Mechanisms, Plan,
};
use sandbox_host::confinement::{self, Kernel, Mode};
use sandbox_lang::packages::{self, ProvisionNetwork};

use crate::Family;
use crate::detached::mounts_host_folders;
use crate::egress;
use crate::engine::{EngineFacts, KernelIsolation};
use crate::lowering::{RootFilesystem, StorageSplit};
use crate::packages::cache_unreachable;

/// Reports the enforcement of each demand of a plan. `provision` is the network of
/// installations.
pub(crate) fn report(
    family: &Family,
    plan: &Plan,
    facts: &EngineFacts,
    kernel: &Kernel,
    mode: Mode,
    storage: &StorageSplit,
    provision: &ProvisionNetwork<'_>,
) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    for demand in &plan.demands {
        let entry = match demand.capability {
            Capability::Disk => disk(family, facts, mode, storage),
            Capability::PackageInstallation if !plan.packages.is_empty() => {
                packages::provisioned(provision)
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
#[path = "report_tests.rs"]
mod tests;
