//! The enforcement report of a plan on this host.

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    Capability, CgroupController, CgroupLimit, CgroupVersion, Enforcement, EnforcementReport,
    Mechanism, Plan,
};
use sandbox_host::WORK_FOLDER;
use sandbox_host::confinement::{self as executions, Mode, export_folders};
use sandbox_host::egress::with_rules;
use sandbox_lang::packages;

use super::LoweringContext;
use super::confinement::kernel;
use super::roots::Roots;
use crate::host::cgroup::{Swap, V2};
use crate::host::{Cgroups, Isolation};

/// One entry for each demand of the plan.
pub(super) fn report(
    plan: &Plan,
    context: &LoweringContext<'_>,
    mode: Mode,
    roots: &Roots<'_>,
) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    for demand in &plan.demands {
        report.set(
            demand.capability,
            entry(demand.capability, plan, context, mode, roots),
        );
    }
    report
}

fn entry(
    capability: Capability,
    plan: &Plan,
    context: &LoweringContext<'_>,
    mode: Mode,
    roots: &Roots<'_>,
) -> Enforcement {
    let kernel = kernel(context.host);
    match capability {
        Capability::FilesystemReadRoots => read_roots(context),
        Capability::FilesystemWriteRoots => write_roots(plan, context, roots),
        Capability::NetworkAccess | Capability::Egress => network(plan, context),
        Capability::EnvVarAccess => {
            Enforcement::enforced(Mechanism::FreshEnvironmentAndDescriptors)
        }
        Capability::Processes => processes(context),
        Capability::Privileges => privileges(context, executions::privileges(&kernel, mode)),
        Capability::Timeout => timeout(context),
        Capability::Lifetime if plan.detached => Enforcement::enforced(Mechanism::Keeper),
        Capability::Lifetime => {
            Enforcement::enforced([Mechanism::OwnerClock, Mechanism::EndedWithOwner])
        }
        // The host counts what it reads from the stream.
        Capability::StdoutMaxBytes | Capability::StderrMaxBytes => {
            Enforcement::enforced(Mechanism::BoundedCaptureOnHost)
        }
        Capability::Memory => memory(context),
        Capability::Cpus => cpus(context),
        Capability::Pids => pids(context),
        Capability::Disk => disk(plan, context, roots),
        Capability::OpenFiles => Enforcement::enforced(Mechanism::RlimitNofile),
        Capability::ArtifactExportPaths => export_paths(plan, context, roots),
        Capability::Packages => packages::installed(),
        Capability::PackageInstallation if plan.packages.is_empty() => packages::denied(plan),
        Capability::PackageInstallation => packages::provisioned(context.provision),
        _ => executions::by_agent(capability, &kernel, mode),
    }
}

/// Separate mounts, with Landlock behind them if the kernel has it.
fn mounts(context: &LoweringContext<'_>, mechanism: Mechanism) -> Enforcement {
    let mounts = Enforcement::enforced([Mechanism::MountNamespace, mechanism]);
    match context.host.landlock_abi {
        0 => mounts,
        _ => mounts.and(Mechanism::Landlock),
    }
}

fn read_roots(context: &LoweringContext<'_>) -> Enforcement {
    match context.isolation {
        Isolation::Privileged | Isolation::UserNamespace => mounts(context, Mechanism::PivotRoot),
        Isolation::Landlock => Enforcement::partial(
            Mechanism::Landlock,
            "names, sizes and dates of the caller's files outside can be seen (stat is not covered)",
        ),
    }
}

/// Named pipes of the host that code can write to although they are in a read root. Read-only
/// mounts do not protect pipes. Landlock does, but a rule for a folder covers everything mounted
/// below it.
fn open_pipes(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> Option<Mechanism> {
    let workspace = plan.workspace.as_ref();
    let is_read_only = workspace.is_some_and(|workspace| workspace.read_only);
    let mounts = plan.mounts.iter().filter(|mount| mount.read_only);
    let mut read_roots = plan.read_roots.iter().chain(mounts.map(|it| &it.target));
    if context.host.landlock_abi == 0 && (is_read_only || read_roots.clone().next().is_some()) {
        Some(Mechanism::OpenPipes)
    } else if read_roots.any(|root| root.starts_with("/tmp") || root.starts_with("/dev/shm"))
        || roots.has_read_only_below_writable()
    {
        Some(Mechanism::OpenPipesBelowWritable)
    } else {
        None
    }
}

fn write_roots(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> Enforcement {
    match context.isolation {
        Isolation::Privileged | Isolation::UserNamespace => {
            let mounts = mounts(context, Mechanism::ReadOnlyMounts);
            let pipes = open_pipes(plan, context, roots);
            pipes.into_iter().fold(mounts, Enforcement::and)
        }
        Isolation::Landlock => {
            let mut gap =
                "modes, dates and attributes of the caller's files outside can be changed \
                           (chmod, chown, utimes and setxattr are not covered)"
                    .to_owned();
            if context.host.landlock_abi < 3 {
                gap += ", and files outside can be cut to nothing by truncate (Landlock ABI 3 would cover that)";
            }
            if roots.has_read_only_below_writable() {
                gap += ", and read roots that lie in a write root can be written";
            }
            Enforcement::partial(Mechanism::Landlock, gap)
        }
    }
}

fn network(plan: &Plan, context: &LoweringContext<'_>) -> Enforcement {
    if let NetworkPolicy::Allow(rules) = &plan.network {
        if context.isolation == Isolation::Landlock {
            return Enforcement::unenforced(
                "rules take a network namespace, which this host does not give: there is no network at all",
            );
        }
        return with_rules(isolated(context), rules);
    }
    isolated(context)
}

/// No network but the sandbox's own.
fn isolated(context: &LoweringContext<'_>) -> Enforcement {
    match (context.isolation, kernel(context.host).seccomp) {
        (Isolation::Landlock, _) => Enforcement::enforced(Mechanism::SeccompWithoutSockets),
        (_, true) => Enforcement::enforced([Mechanism::NetworkNamespace, Mechanism::Seccomp]),
        (_, false) => Enforcement::partial(
            Mechanism::NetworkNamespace,
            "sockets that are in no network namespace (vsock) are open: the kernel has no seccomp filters",
        ),
    }
}

/// Adds the sandbox's part to the confinement of executions.
fn privileges(context: &LoweringContext<'_>, of_executions: Enforcement) -> Enforcement {
    if context.isolation == Isolation::Landlock || !context.host.proc_mount.is_present() {
        return of_executions;
    }
    of_executions.and(Mechanism::ReadOnlyKernelSettings)
}

fn processes(context: &LoweringContext<'_>) -> Enforcement {
    let own = Enforcement::enforced([
        Mechanism::ProcessAndIpcNamespaces,
        Mechanism::EndedWithFirstProcess,
    ]);
    let own = match context.host.proc_mount.is_present() {
        true => own.and(Mechanism::InotifyLimits),
        false => own,
    };
    // Resources that code which runs as the caller can exhaust for the caller. See SECURITY.md.
    let shared = Mechanism::SharedUserCounters;
    match context.isolation {
        Isolation::Privileged => own,
        Isolation::UserNamespace => own.and(shared),
        Isolation::Landlock => {
            let seen = format!(
                "which other processes there are can be found out (stat of /proc); {shared}, inotify"
            );
            let gap = match (context.host.landlock_abi, context.host.cgroups.has_pids()) {
                (6.., true) => seen,
                (6.., false) => {
                    format!("{seen}, and what is left is lost if the agent is killed from outside")
                }
                _ => format!("{seen} and can be sent signals (Landlock ABI 6 would deny that)"),
            };
            let own = [
                Mechanism::Landlock,
                Mechanism::Seccomp,
                Mechanism::ChildSubreaper,
            ];
            Enforcement::partial(own, gap)
        }
    }
}

fn timeout(context: &LoweringContext<'_>) -> Enforcement {
    let whole_tree = match context.isolation {
        Isolation::Privileged | Isolation::UserNamespace => Mechanism::ProcessNamespace,
        Isolation::Landlock => Mechanism::ChildSubreaper,
    };
    Enforcement::enforced([Mechanism::Agent, Mechanism::HostClock, whole_tree])
}

fn cgroup(context: &LoweringContext<'_>, controller: CgroupController) -> Vec<Mechanism> {
    let (version, scope) = match &context.host.cgroups {
        Cgroups::V1(_) => (CgroupVersion::V1, None),
        Cgroups::V2(groups) => (CgroupVersion::V2, groups.scope.as_ref()),
        Cgroups::None { .. } => (CgroupVersion::Unknown, None),
    };
    let limit = Mechanism::Cgroup(CgroupLimit::new(version, controller));
    let scope = scope.map(|scope| scope.mechanism());
    std::iter::once(limit).chain(scope).collect()
}

/// Why there is no control group, and what would help.
fn no_cgroup(context: &LoweringContext<'_>, controller: &str) -> String {
    match &context.host.cgroups {
        Cgroups::None { reason, fix } => format!("{reason}; fix: {fix}"),
        Cgroups::V2(V2 {
            scope: Some(scope), ..
        }) => format!("{} has no {controller} controller to give", scope.manager()),
        _ => format!("the {controller} controller is not handed down to this process"),
    }
}

fn memory(context: &LoweringContext<'_>) -> Enforcement {
    if !context.host.cgroups.has_memory() {
        return Enforcement::partial(
            [Mechanism::MemorySampling, Mechanism::RlimitData],
            format!(
                "what is taken between two samples, and what no process has mapped (files in memory), is not stopped ({})",
                no_cgroup(context, "memory")
            ),
        );
    }
    let limit = Enforcement::enforced(cgroup(context, CgroupController::Memory));
    match context.host.cgroups.swap() {
        Swap::Limited => limit.and(Mechanism::SwapLimit),
        Swap::Absent => limit,
        Swap::Uncounted => limit.weakened(
            "swap is not limited: the kernel does not count it (boot with swapaccount=1)",
        ),
    }
}

fn cpus(context: &LoweringContext<'_>) -> Enforcement {
    if context.host.cgroups.has_cpu() {
        Enforcement::enforced(cgroup(context, CgroupController::Cpu))
    } else {
        Enforcement::unenforced(no_cgroup(context, "cpu"))
    }
}

fn pids(context: &LoweringContext<'_>) -> Enforcement {
    let own = Enforcement::enforced(Mechanism::RlimitNprocInOwnUserNamespace);
    let group = cgroup(context, CgroupController::Pids);
    match (context.isolation, context.host.cgroups.has_pids()) {
        (Isolation::Privileged | Isolation::UserNamespace, true) => {
            group.into_iter().fold(own, Enforcement::and)
        }
        (Isolation::Privileged | Isolation::UserNamespace, false) => own,
        (Isolation::Landlock, true) => Enforcement::enforced(group),
        (Isolation::Landlock, false) => Enforcement::partial(
            Mechanism::RlimitNproc,
            "it counts the user's processes outside too, as they come and go",
        ),
    }
}

fn disk(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> Enforcement {
    if context.isolation == Isolation::Landlock {
        return Enforcement::partial(Mechanism::RlimitFsize, "it bounds each file, not their sum");
    }
    let workspace = plan.workspace.iter().filter(|it| !it.read_only);
    let mut writable = roots.binds.iter().filter(|bind| !bind.read_only);
    let unbounded = [
        ("workspace", workspace.count() > 0),
        ("write roots", writable.clone().any(|bind| !bind.has_target)),
        ("mounts", writable.any(|bind| bind.has_target)),
    ];
    let unbounded = unbounded
        .iter()
        .filter(|(_, is)| *is)
        .map(|(what, _)| *what);
    let unbounded = unbounded.collect::<Vec<_>>().join(" and ");
    if unbounded.is_empty() {
        return Enforcement::enforced(Mechanism::OneTmpfs);
    }
    let gap = format!("{unbounded} unbounded");
    Enforcement::partial([Mechanism::OneTmpfs, Mechanism::RlimitFsize], gap)
}

fn export_paths(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> Enforcement {
    let bounded =
        Enforcement::enforced([Mechanism::CopiedByAgent, Mechanism::OpenedBeneathHostFolder]);
    if context.isolation != Isolation::Landlock {
        return bounded;
    }
    let workspace = context
        .host_paths
        .workspace
        .as_ref()
        .map(|root| root.path.as_path());
    let reachable = |folder: &std::path::PathBuf| {
        roots.access(folder) == Some(false)
            || workspace.is_some_and(|workspace| folder.starts_with(workspace))
    };
    match export_folders(&plan.export_paths)
        .into_iter()
        .find(|folder| !reachable(folder))
    {
        None => bounded,
        Some(folder) => Enforcement::unenforced(format!(
            "{} is the host's own here (a root of its own, with {WORK_FOLDER}, takes user namespaces): name paths below the \
             workspace or a write root",
            folder.display()
        )),
    }
}
