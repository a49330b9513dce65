//! Everything of the host that one plan names, looked up, so that its lowering is pure.

use std::path::PathBuf;
use std::sync::Arc;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Plan, Result};

use super::{Kind, PathRole, Root, mount_table, mounts_of, platform_roots, resolve};
use crate::error;

/// What a plan names of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Material {
    /// The platform's programs and libraries.
    pub(crate) platform: Arc<[Root]>,
    /// The plan's read roots.
    pub(crate) read: Vec<Root>,
    /// The plan's write roots.
    pub(crate) write: Vec<Root>,
    pub(crate) workspace: Option<Root>,
    /// The host's file systems of processes that are mounted in the roots and the workspace.
    pub(crate) processes: Vec<PathBuf>,
    /// The folder of installed packages, where it is there and the plan lets code write to folders of the host.
    pub(crate) cache: Option<PathBuf>,
    /// The host's `/etc/hosts` and `/etc/resolv.conf`, for a sandbox with the host's network.
    pub(crate) names: Option<(Vec<u8>, Vec<u8>)>,
}

impl Material {
    /// Looks everything up.
    pub(crate) fn of(tier: &str, plan: &Plan) -> Result<Self> {
        let resolve_all = |role, paths: &[PathBuf]| {
            let mut roots = Vec::new();
            for path in paths {
                roots.extend(resolve(tier, role, path)?);
            }
            Ok(roots)
        };
        let workspace = match &plan.workspace {
            None => None,
            Some(workspace) => resolve(tier, PathRole::Workspace, &workspace.path)?.pop(),
        };
        // A host without these files has no names either.
        let file = |path| std::fs::read(path).unwrap_or_default();
        let names = matches!(plan.network, NetworkPolicy::Full)
            .then(|| (file("/etc/hosts"), file("/etc/resolv.conf")));
        if let Some(root) = &workspace
            && root.kind != Kind::Folder
        {
            return Err(error::invalid_spec(
                tier,
                format!("workspace {}: not a folder", root.path.display()),
                "name a folder",
            ));
        }
        let read = resolve_all(PathRole::Read, &plan.read_roots)?;
        let write = resolve_all(PathRole::Write, &plan.write_roots)?;
        let named = read.iter().chain(&write).chain(&workspace);
        let processes =
            processes(named).map_err(|cause| error::setup(tier, "the table of mounts", cause))?;
        Ok(Self {
            cache: None,
            platform: platform_roots(),
            read,
            write,
            workspace,
            processes,
            names,
        })
    }
}

/// Where processes of the host would show in these roots.
fn processes<'a>(roots: impl Iterator<Item = &'a Root>) -> std::io::Result<Vec<PathBuf>> {
    let mut roots = roots.peekable();
    if roots.peek().is_none() {
        return Ok(Vec::new());
    }
    let table = mount_table()?;
    let mut found = Vec::new();
    for root in roots {
        let mounts = mounts_of(&table, &root.path);
        let processes = mounts.into_iter().filter(|mount| mount.kind == "proc");
        found.extend(processes.map(|mount| mount.at.clone()));
    }
    found.sort();
    found.dedup();
    Ok(found)
}
