//! Lowers a plan to operations on this host. Does no I/O: the host was inspected before.

mod confinement;
mod etc;
mod identity;
mod limits;
mod mounts;
mod proc_files;
mod python_alias;
mod report;
mod roots;
mod sys_files;
#[cfg(test)]
mod tests;
mod user_limits;

use std::path::{Path, PathBuf};

use sandbox_agent::protocol::{Confinement, Setup};
use sandbox_agent::runtime::namespace::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER,
    CLONE_NEWUTS,
};
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{EnforcementReport, ImageRetention, Plan, Result};
use sandbox_host::check_export_paths;
use sandbox_host::confinement::Mode;
use sandbox_lang::packages::ProvisionNetwork;

use crate::cgroup::Limits;
use crate::error;
use crate::host::{Host, Isolation, PlanPaths};

pub(crate) use etc::{Etc, EtcEntry};
pub(crate) use identity::IdMappedFolder;
pub(crate) use mounts::{SCRATCH, Scratch};
use roots::Roots;
pub(crate) use sys_files::with_groups;

/// The input of lowering besides the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoweringContext<'a> {
    /// The tier, for errors.
    pub(crate) tier: &'a str,
    pub(crate) host: &'a Host,
    pub(crate) isolation: Isolation,
    pub(crate) host_paths: &'a PlanPaths,
    /// The state folder. No sandbox may see it.
    pub(crate) state: &'a Path,
    /// A private folder of the sandbox on the host, for isolation without namespaces.
    pub(crate) private: &'a Path,
    /// The agent's process id as seen by the code.
    pub(crate) agent: u32,
    /// Current processes and threads of the caller's user, for isolation without namespaces.
    pub(crate) user_tasks: u64,
    /// The network of installations of packages.
    pub(crate) provision: &'a ProvisionNetwork<'a>,
}

/// A lowered plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalPlan {
    pub(crate) isolation: Isolation,
    /// `CLONE_NEW*`.
    pub(crate) namespaces: u64,
    /// Whether the network namespace is created by the network thread rather than by the clone.
    pub(crate) network: bool,
    /// The setup message for the agent.
    pub(crate) setup: Setup,
    /// The tmpfs for everything that code may write besides folders of the host.
    pub(crate) scratch: Scratch,
    /// The sandbox's own `/etc`, if it has one.
    pub(crate) etc: Option<Etc>,
    /// The user that code runs as.
    pub(crate) mode: Mode,
    /// Folders to be id-mapped.
    pub(crate) mapped: Vec<IdMappedFolder>,
    pub(crate) groups: Limits,
    /// The memory limit in bytes that the sampler enforces.
    pub(crate) sampled_memory: Option<u64>,
    pub(crate) confinement: Confinement,
    /// The default folder of executions, if it is not the usual one.
    pub(crate) workdir: Option<PathBuf>,
    pub(crate) report: EnforcementReport,
    /// The opened paths of the host, held until the sandbox is created.
    pub(crate) host_paths: PlanPaths,
}

/// Refuses fields that only apply to images.
pub(crate) fn check_no_image(tier: &str, plan: &Plan) -> Result<()> {
    let requested = [
        ("image", plan.image.is_some()),
        ("pull", plan.pull.is_some()),
        (
            "image_retention",
            plan.image_retention != ImageRetention::Keep,
        ),
        ("writable_root", plan.writable_root),
    ];
    match requested.iter().find(|(_, requested)| *requested) {
        None => Ok(()),
        Some((field, _)) => Err(error::invalid_spec(
            tier,
            format!("{field}: the local backend has no images"),
            format!("leave the {field} out, or use a container backend"),
        )),
    }
}

/// Refuses storage that only an engine or a cluster has.
pub(crate) fn check_no_volumes(tier: &str, plan: &Plan) -> Result<()> {
    match plan.volumes.first() {
        None => Ok(()),
        Some(volume) => Err(error::unsupported(
            tier,
            format!("storage: the local backend has no {}", volume.place),
            "name a path of the host in the policy's storage, or use another tier",
        )),
    }
}

/// Lowers a plan to operations on this host.
///
/// # Errors
///
/// If this backend cannot build the sandbox at all.
pub(crate) fn lower(plan: &Plan, context: &LoweringContext<'_>) -> Result<LocalPlan> {
    check_no_image(context.tier, plan)?;
    check_no_volumes(context.tier, plan)?;
    check_export_paths(&plan.export_paths).map_err(|error| error.on(context.tier))?;
    let mode = identity::mode(plan, context)?;
    let roots = Roots::of(plan, context)?;
    let own_root = context.isolation != Isolation::Landlock;
    let (setup, scratch, etc) = if own_root {
        mounts::setup(plan, context, mode, &roots)
    } else {
        // The agent must not die with the host's thread: without a PID namespace it has to end its
        // descendants first.
        Default::default()
    };
    let workdir = match (own_root, &plan.workdir, &context.host_paths.workspace) {
        (true, ..) | (false, Some(_), _) => None,
        (false, None, Some(workspace)) => Some(workspace.path.clone()),
        (false, None, None) => Some(context.private.into()),
    };
    Ok(LocalPlan {
        isolation: context.isolation,
        namespaces: namespaces(plan, context),
        network: context.isolation == Isolation::Privileged && !full_network(plan),
        setup,
        scratch,
        etc,
        mode,
        mapped: identity::mapped(plan, context)?,
        groups: limits::groups(plan, context),
        sampled_memory: limits::sampled_memory(plan, context),
        confinement: confinement::confinement(plan, context, mode, &roots),
        workdir,
        report: report::report(plan, context, mode, &roots),
        host_paths: context.host_paths.clone(),
    })
}

fn namespaces(plan: &Plan, context: &LoweringContext<'_>) -> u64 {
    let namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    match context.isolation {
        // The agent mounts as root and enters a user namespace afterwards. So these namespaces
        // belong to the host, and code has no power over them.
        Isolation::Privileged => namespaces,
        Isolation::UserNamespace if full_network(plan) => namespaces | CLONE_NEWUSER,
        Isolation::UserNamespace => namespaces | CLONE_NEWUSER | CLONE_NEWNET,
        Isolation::Landlock => 0,
    }
}

/// Whether the agent carries connections that rules allow. It takes a network namespace.
fn carries_rules(plan: &Plan, context: &LoweringContext<'_>) -> bool {
    let has_rules = matches!(plan.network, NetworkPolicy::Allow(_));
    has_rules && context.isolation != Isolation::Landlock
}

fn full_network(plan: &Plan) -> bool {
    matches!(plan.network, NetworkPolicy::Full)
}
