//! The confinement of executions in a sandbox.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sandbox_agent::protocol::{Confinement, LandlockPath, ResourceLimit};
use sandbox_core::Plan;
use sandbox_host::WORK_FOLDER;
use sandbox_host::confinement::{self, Isolation as Surroundings, Kernel, Mode, Paths, Profile};
use sandbox_host::seccomp::Arch;

use super::roots::{Roots, is_within};
use super::{LoweringContext, sys_files};
use crate::host::{Host, Isolation, OpenObject};

const RLIMIT_NPROC: u32 = 6;
const RLIMIT_SIGPENDING: u32 = 11;

/// Pending signals and POSIX timers of the sandbox's users together. They count against the caller
/// too, whose limit may be a few thousand on a small machine. Programs with hundreds of either are
/// rare.
const PENDING_SIGNALS: u64 = 1024;

/// The confinement of every execution.
pub(super) fn confinement(
    plan: &Plan,
    context: &LoweringContext<'_>,
    mode: Mode,
    roots: &Roots<'_>,
) -> Confinement {
    let surroundings = match context.isolation {
        Isolation::Privileged | Isolation::UserNamespace => Surroundings::Namespaces,
        Isolation::Landlock => Surroundings::Host,
    };
    let mut paths = Paths::of(plan, surroundings);
    match surroundings {
        Surroundings::Host => {
            paths.write.push(context.private.into());
            let provided = plan.provided_folders.iter().map(|one| one.source.clone());
            paths.read.extend(provided);
        }
        _ => own_paths(plan, roots, &mut paths),
    }
    let mut profile = Profile::new(surroundings, paths);
    profile.agent = context.agent;
    profile.memory_by_rlimit = !context.host.cgroups.has_memory();
    // In its own user namespace, the limit counts only the sandbox.
    profile.pids_by_rlimit = context.isolation != Isolation::Landlock;
    profile.disk_by_rlimit = context.isolation == Isolation::Landlock
        || roots.writable()
        || plan
            .workspace
            .as_ref()
            .is_some_and(|workspace| !workspace.read_only);
    let mut confinement = confinement::confinement(plan, &kernel(context.host), mode, &profile);
    if let (Surroundings::Host, Some(rules)) = (surroundings, &mut confinement.landlock) {
        bind_rules_to_objects(&mut rules.paths, plan, context);
    }
    if context.isolation == Isolation::Landlock && !context.host.cgroups.has_pids() {
        // Without its own user namespace, the limit counts all processes of the user.
        let value = context.user_tasks.saturating_add(plan.pids.into());
        confinement.limits.push(ResourceLimit {
            resource: RLIMIT_NPROC,
            value,
        });
    }
    if context.isolation != Isolation::Landlock {
        confinement.limits.push(ResourceLimit {
            resource: RLIMIT_SIGPENDING,
            value: PENDING_SIGNALS,
        });
    }
    confinement
}

/// Restricts each rule for a path of the plan to the object that was opened.
fn bind_rules_to_objects(rules: &mut [LandlockPath], plan: &Plan, context: &LoweringContext<'_>) {
    let host_paths = context.host_paths;
    let roots = host_paths.read.iter().chain(&host_paths.write);
    let named = roots.chain(&host_paths.workspace).filter(|root| root.named);
    let named = named.map(|root| (&root.requested, &root.path, root.object.as_ref()));
    let provided = plan
        .provided_folders
        .iter()
        .zip(&host_paths.provided_folders);
    let provided = provided.map(|(one, object)| (&one.source, &one.source, Some(object)));
    for (requested, path, object) in named.chain(provided) {
        let requested = requested.as_os_str().as_bytes();
        for rule in rules.iter_mut().filter(|rule| rule.path == requested) {
            rule.path = path.as_os_str().as_bytes().to_vec();
            rule.object = object.map(OpenObject::for_agent);
        }
    }
}

/// The kernel features that determine the confinement.
pub(super) fn kernel(host: &Host) -> Kernel {
    let arch = Arch::native();
    Kernel {
        arch: arch.unwrap_or(Arch::X86_64),
        landlock_abi: host.landlock_abi,
        // Filters exist only for known architectures.
        seccomp: host.seccomp.filters && arch.is_some(),
        seccomp_notify: host.seccomp.notification,
    }
}

/// Adds one rule for each outermost folder. In a root that holds only what the plan grants, this is
/// equivalent to one rule per path and faster.
fn own_paths(plan: &Plan, roots: &Roots<'_>, paths: &mut Paths) {
    let mut read = ["/etc", "/proc", sys_files::SYS]
        .map(PathBuf::from)
        .to_vec();
    let read_only = roots.binds.iter().filter(|bind| bind.read_only);
    read.extend(read_only.map(|bind| bind.path.to_path_buf()));
    read.extend(plan.provided_folders.iter().map(|one| one.target.clone()));
    if plan
        .workspace
        .as_ref()
        .is_some_and(|workspace| workspace.read_only)
    {
        read.push(WORK_FOLDER.into());
    }
    paths.read = outermost(read);
    paths.write.push(WORK_FOLDER.into());
    if plan
        .workspace
        .as_ref()
        .is_some_and(|workspace| workspace.read_only)
    {
        paths.write.retain(|path| path != WORK_FOLDER);
    }
    paths.write = outermost(std::mem::take(&mut paths.write));
}

/// The paths that are in no other path of the list, sorted.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut outermost = Vec::<PathBuf>::new();
    for path in paths {
        if !outermost.iter().any(|outer| is_within(&path, outer)) {
            outermost.push(path);
        }
    }
    outermost
}
