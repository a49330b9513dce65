//! The user that code runs as, and the folders whose files it owns.

use std::path::PathBuf;

use sandbox_agent::protocol::AGENT_ID;
use sandbox_core::{Plan, Result};
use sandbox_host::confinement::Mode;

use super::LoweringContext;
use crate::error;
use crate::host::{FileKind, Isolation, OpenObject, PathRole, Root};
use crate::spawn::identity::SHARED_ID;

/// The code's default user and group where it has its own user.
const CODE: (u32, u32) = (1000, 1000);

/// A folder to be id-mapped: files of `from` on the host belong to the code inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdMappedFolder {
    pub(crate) path: PathBuf,
    /// The object that the path must lead to.
    pub(crate) object: Option<OpenObject>,
    pub(crate) from: (u32, u32),
}

// Code is never the agent's user: it has a smaller number.
const _: () = assert!(SHARED_ID <= AGENT_ID);

/// The user that code runs as.
pub(super) fn mode(plan: &Plan, context: &LoweringContext<'_>) -> Result<Mode> {
    match (context.isolation, plan.user) {
        (Isolation::Privileged, requested) => {
            let (uid, gid) = requested.unwrap_or(CODE);
            let within = |id: u32| (1..SHARED_ID).contains(&id);
            if within(uid) && within(gid) {
                return Ok(Mode::Split { uid, gid });
            }
            Err(error::invalid_spec(
                context.tier,
                format!(
                    "user {uid}:{gid}: code runs as one of 1 to {}",
                    SHARED_ID - 1
                ),
                "name such a user, or none; one execution can be root's (`ExecRequest::user`, `sandbox exec --user root`)",
            ))
        }
        (Isolation::UserNamespace, None | Some((SHARED_ID, SHARED_ID))) => Ok(Mode::Shared),
        (Isolation::Landlock, None) => Ok(Mode::Shared),
        (Isolation::UserNamespace | Isolation::Landlock, Some((uid, gid))) => {
            Err(error::invalid_spec(
                context.tier,
                format!("user {uid}:{gid}: without root, code can only run as the caller"),
                "leave the user out, or run as root",
            ))
        }
    }
}

/// The folders to be id-mapped, so that code owns what their owner owns on the host: write roots, a
/// writable workspace, writable mounts, and a workspace or mount that other users may not read.
pub(super) fn mapped(plan: &Plan, context: &LoweringContext<'_>) -> Result<Vec<IdMappedFolder>> {
    if context.isolation != Isolation::Privileged {
        return Ok(Vec::new());
    }
    if let Some(root) = context
        .host_paths
        .read
        .iter()
        .find(|root| root.named && !others_may_read(root))
    {
        // It would be visible but unreadable.
        return Err(error::invalid_policy(
            context.tier,
            format!(
                "{} {} has mode {:03o}, and code runs as a user of its own",
                PathRole::Read.name(),
                root.path.display(),
                root.mode
            ),
            "chmod o+rX it, or pass it as the workspace",
        ));
    }
    let read_only = plan
        .workspace
        .as_ref()
        .is_some_and(|workspace| workspace.read_only);
    let workspace = context.host_paths.workspace.iter();
    let workspace = workspace.filter(|root| !read_only || !others_may_read(root));
    let mounts = context.host_paths.mounts.iter();
    let mounts = mounts.filter(|it| !it.read_only || !others_may_read(&it.root));
    let roots = workspace.chain(&context.host_paths.write);
    let mut mapped = Vec::<IdMappedFolder>::new();
    for root in roots.chain(mounts.map(|it| &it.root)) {
        // A nested folder is mapped with the outer one.
        if !mapped
            .iter()
            .any(|outer| root.path.starts_with(&outer.path))
        {
            mapped.push(IdMappedFolder {
                path: root.path.clone(),
                object: root.object.clone(),
                from: root.owner,
            });
        }
    }
    Ok(mapped)
}

fn others_may_read(root: &Root) -> bool {
    let needed = if root.kind == FileKind::Folder {
        0o005
    } else {
        0o004
    };
    root.mode & needed == needed
}
