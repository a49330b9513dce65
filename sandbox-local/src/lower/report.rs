//! The enforcement report of a plan on this host.

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Capability, Enforcement, EnforcementReport, Plan};
use sandbox_host::WORK_FOLDER;
use sandbox_host::confinement::{self as executions, Mode, export_folders};
use sandbox_lang::packages;

use super::LoweringContext;
use super::confinement::kernel;
use super::roots::Roots;
use crate::host::cgroup::{Swap, V2};
use crate::host::{Cgroups, Isolation};

const NOT_BUILT: &str = "not built yet on this backend";

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
            Enforcement::enforced("environment built from nothing, descriptors closed")
        }
        Capability::Processes => processes(context),
        Capability::Privileges => privileges(context, executions::privileges(&kernel, mode)),
        Capability::SubprocessExecution => executions::subprocess_execution(&kernel),
        Capability::Timeout => timeout(context),
        Capability::Lifetime if plan.detached => Enforcement::enforced("keeper outside"),
        Capability::Lifetime => Enforcement::enforced("owner's clock, ended with the owner"),
        // The host counts what it reads from the stream.
        Capability::StdoutMaxBytes | Capability::StderrMaxBytes => {
            Enforcement::enforced("bounded capture on the host")
        }
        Capability::Memory => memory(context),
        Capability::Cpus => cpus(context),
        Capability::Pids => pids(context),
        Capability::Disk => disk(plan, context, roots),
        Capability::OpenFiles => Enforcement::enforced("RLIMIT_NOFILE"),
        Capability::ArtifactExportPaths => export_paths(plan, context, roots),
        Capability::Packages => packages::installed(),
        Capability::PackageInstallation if plan.packages.is_empty() => packages::denied(plan),
        Capability::PackageInstallation => packages::provisioned(None),
        Capability::Secrets => Enforcement::unenforced(NOT_BUILT),
        _ => Enforcement::unenforced("this backend does not know the capability"),
    }
}

fn with_landlock(context: &LoweringContext<'_>, mechanism: &str) -> String {
    if context.host.landlock_abi > 0 {
        format!("{mechanism}, Landlock")
    } else {
        mechanism.to_owned()
    }
}

fn read_roots(context: &LoweringContext<'_>) -> Enforcement {
    match context.isolation {
        Isolation::Privileged | Isolation::UserNamespace => {
            Enforcement::enforced(with_landlock(context, "mount namespace, pivot_root"))
        }
        Isolation::Landlock => Enforcement::partial(
            "Landlock",
            "names, sizes and dates of the caller's files outside can be seen (stat is not covered)",
        ),
    }
}

/// Named pipes of the host that code can write to although they are in a read root. Read-only
/// mounts do not protect pipes. Landlock does, but a rule for a folder covers everything mounted
/// below it.
fn open_pipes(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> &'static str {
    let workspace = plan.workspace.as_ref();
    let is_read_only = workspace.is_some_and(|workspace| workspace.read_only);
    let mut read_roots = plan.read_roots.iter();
    if context.host.landlock_abi == 0 && (is_read_only || !plan.read_roots.is_empty()) {
        " (named pipes in read roots can be written)"
    } else if read_roots.any(|root| root.starts_with("/tmp") || root.starts_with("/dev/shm"))
        || roots.has_read_only_below_writable()
    {
        " (named pipes can be written in read roots that lie below /tmp, /dev/shm or a write root)"
    } else {
        ""
    }
}

fn write_roots(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> Enforcement {
    match context.isolation {
        Isolation::Privileged | Isolation::UserNamespace => {
            let mechanism = with_landlock(context, "mount namespace, read-only mounts");
            let pipes = open_pipes(plan, context, roots);
            Enforcement::enforced(format!("{mechanism}{pipes}"))
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
            Enforcement::partial("Landlock", gap)
        }
    }
}

fn network(plan: &Plan, context: &LoweringContext<'_>) -> Enforcement {
    if let NetworkPolicy::Allow(_) = plan.network {
        return Enforcement::unenforced(format!(
            "rules by host name are {NOT_BUILT}: there is no network at all"
        ));
    }
    match (context.isolation, kernel(context.host).seccomp) {
        (Isolation::Landlock, _) => {
            Enforcement::enforced("seccomp (no sockets but connected unix pairs)")
        }
        (_, true) => Enforcement::enforced("network namespace, seccomp"),
        (_, false) => Enforcement::partial(
            "network namespace",
            "sockets that are in no network namespace (vsock) are open: the kernel has no seccomp filters",
        ),
    }
}

/// Adds the sandbox's part to the confinement of executions.
fn privileges(context: &LoweringContext<'_>, of_executions: Enforcement) -> Enforcement {
    if context.isolation == Isolation::Landlock || !context.host.proc_mount.is_present() {
        return of_executions;
    }
    match of_executions {
        Enforcement::Enforced { mechanism } => {
            Enforcement::enforced(format!("{mechanism}, {SETTINGS}"))
        }
        Enforcement::Partial { mechanism, gap } => {
            Enforcement::partial(format!("{mechanism}, {SETTINGS}"), gap)
        }
        other => other,
    }
}

const SETTINGS: &str = "read-only /proc/sys";

/// Resources that code which runs as the caller can exhaust for the caller. See SECURITY.md.
const SHARED: &str = "shared with the caller: what the kernel counts for each user (pipe buffers, descriptors in \
                      flight, epoll watches)";

fn processes(context: &LoweringContext<'_>) -> Enforcement {
    let own = "process and ipc namespaces, ended with their first process";
    let own = match context.host.proc_mount.is_present() {
        true => format!("{own}, limits of inotify"),
        false => own.to_owned(),
    };
    match context.isolation {
        Isolation::Privileged => Enforcement::enforced(own),
        Isolation::UserNamespace => Enforcement::enforced(format!("{own}; {SHARED}")),
        Isolation::Landlock => {
            let seen = format!(
                "which other processes there are can be found out (stat of /proc); {SHARED}, inotify"
            );
            let gap = match (context.host.landlock_abi, context.host.cgroups.has_pids()) {
                (6.., true) => seen,
                (6.., false) => {
                    format!("{seen}, and what is left is lost if the agent is killed from outside")
                }
                _ => format!("{seen} and can be sent signals (Landlock ABI 6 would deny that)"),
            };
            Enforcement::partial("Landlock, seccomp, child subreaper", gap)
        }
    }
}

fn timeout(context: &LoweringContext<'_>) -> Enforcement {
    match context.isolation {
        Isolation::Privileged | Isolation::UserNamespace => {
            Enforcement::enforced("agent, host clock, process namespace")
        }
        Isolation::Landlock => Enforcement::enforced("agent, host clock, child subreaper"),
    }
}

fn cgroup(context: &LoweringContext<'_>, controller: &str) -> String {
    match &context.host.cgroups {
        Cgroups::V1(_) => format!("cgroup v1 {controller}"),
        Cgroups::V2(groups) => match &groups.scope {
            Some(scope) => format!("cgroup v2 {controller} in a scope of {}", scope.manager()),
            None => format!("cgroup v2 {controller}"),
        },
        Cgroups::None { .. } => controller.to_owned(),
    }
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
            "sampled every 100 ms, RLIMIT_DATA",
            format!(
                "what is taken between two samples, and what no process has mapped (files in memory), is not stopped ({})",
                no_cgroup(context, "memory")
            ),
        );
    }
    let mechanism = cgroup(context, "memory");
    match context.host.cgroups.swap() {
        Swap::Limited => Enforcement::enforced(format!("{mechanism}, swap included")),
        Swap::Absent => Enforcement::enforced(mechanism),
        Swap::Uncounted => Enforcement::partial(
            mechanism,
            "swap is not limited: the kernel does not count it (boot with swapaccount=1)",
        ),
    }
}

fn cpus(context: &LoweringContext<'_>) -> Enforcement {
    if context.host.cgroups.has_cpu() {
        Enforcement::enforced(cgroup(context, "cpu"))
    } else {
        Enforcement::unenforced(no_cgroup(context, "cpu"))
    }
}

fn pids(context: &LoweringContext<'_>) -> Enforcement {
    let own = "RLIMIT_NPROC in its own user namespace";
    match (context.isolation, context.host.cgroups.has_pids()) {
        (Isolation::Privileged | Isolation::UserNamespace, true) => {
            Enforcement::enforced(format!("{own}, {}", cgroup(context, "pids")))
        }
        (Isolation::Privileged | Isolation::UserNamespace, false) => Enforcement::enforced(own),
        (Isolation::Landlock, true) => Enforcement::enforced(cgroup(context, "pids")),
        (Isolation::Landlock, false) => Enforcement::partial(
            "RLIMIT_NPROC",
            "it counts the user's processes outside too, as they come and go",
        ),
    }
}

fn disk(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> Enforcement {
    let workspace = plan
        .workspace
        .as_ref()
        .is_some_and(|workspace| !workspace.read_only);
    if context.isolation == Isolation::Landlock {
        return Enforcement::partial("RLIMIT_FSIZE", "it bounds each file, not their sum");
    }
    let gap = match (workspace, roots.writable()) {
        (false, false) => return Enforcement::enforced("one tmpfs of that size"),
        (true, false) => "workspace unbounded",
        (false, true) => "write roots unbounded",
        (true, true) => "workspace and write roots unbounded",
    };
    Enforcement::partial("one tmpfs of that size, RLIMIT_FSIZE", gap)
}

fn export_paths(plan: &Plan, context: &LoweringContext<'_>, roots: &Roots<'_>) -> Enforcement {
    let mechanism = "copied by the agent as the code's user, opened beneath the folder on the host";
    if context.isolation != Isolation::Landlock {
        return Enforcement::enforced(mechanism);
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
        None => Enforcement::enforced(mechanism),
        Some(folder) => Enforcement::unenforced(format!(
            "{} is the host's own here (a root of its own, with {WORK_FOLDER}, takes user namespaces): name paths below the \
             workspace or a write root",
            folder.display()
        )),
    }
}
