//! Opens every host path that a plan names, so that lowering does no I/O.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Plan, Result};

use sandbox_host::safe_path::{Identity, LinkRule, PathError};

use super::{
    FileKind, OpenObject, PathRole, Root, mount_table, mounts_of, platform_roots, resolve,
};
use crate::error;

/// The host paths of one plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlanPaths {
    /// The platform's programs and libraries.
    pub(crate) platform: Arc<[Root]>,
    /// The plan's read roots.
    pub(crate) read: Vec<Root>,
    /// The plan's write roots.
    pub(crate) write: Vec<Root>,
    pub(crate) workspace: Option<Root>,
    /// The plan's mounts, in its order.
    pub(crate) mounts: Vec<MountedRoot>,
    /// Where procfs is mounted in the roots, the workspace and the mounts.
    pub(crate) processes: Vec<PathBuf>,
    /// The folder of installed packages, if it exists and the plan makes folders of the host
    /// writable.
    pub(crate) cache: Option<PathBuf>,
    /// The same folder, held open.
    pub(crate) cache_object: Option<OpenObject>,
    /// The state folder, held open, if it exists.
    pub(crate) state: Option<OpenObject>,
    /// The folders that the plan provides, in the plan's order, held open.
    pub(crate) provided_folders: Vec<OpenObject>,
    /// The host's `/etc/hosts` and `/etc/resolv.conf`, for a sandbox with the host's network.
    pub(crate) names: Option<(Vec<u8>, Vec<u8>)>,
}

/// A host path that a plan mounts at a path of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountedRoot {
    pub(crate) root: Root,
    /// The path in the sandbox.
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

/// Folders that sandboxes must not change, and the rule for links.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReservedPaths<'a> {
    /// Follow even links that code can replace. For mutants only.
    pub(crate) any_link: bool,
    /// The state folder.
    pub(crate) state: &'a Path,
    /// The folder of installed packages, if code could write to it.
    pub(crate) packages: Option<&'a Path>,
}

impl PlanPaths {
    /// Opens all paths.
    pub(crate) fn open(tier: &str, plan: &Plan, reserved: &ReservedPaths<'_>) -> Result<Self> {
        let resolve_all = |role, paths: &[PathBuf], rule: &LinkRule| {
            let mut roots = Vec::new();
            for path in paths {
                roots.extend(resolve(tier, role, path, rule)?);
            }
            Ok(roots)
        };
        let rule = LinkRule::new(plan.follow_links || reserved.any_link);
        let write = resolve_all(PathRole::Write, &plan.write_roots, &rule)?;
        let workspace = match &plan.workspace {
            None => None,
            Some(workspace) => resolve(tier, PathRole::Workspace, &workspace.path, &rule)?.pop(),
        };
        let mut mounts = Vec::new();
        for mount in &plan.mounts {
            let root = resolve(tier, PathRole::Mount, &mount.source, &rule)?.pop();
            mounts.extend(root.map(|root| MountedRoot {
                root,
                target: mount.target.clone(),
                read_only: mount.read_only,
            }));
        }
        let is_writable = plan.workspace.as_ref().is_some_and(|it| !it.read_only);
        let writable = write.iter().chain(workspace.iter().filter(|_| is_writable));
        let writable_mounts = mounts.iter().filter(|mount| !mount.read_only);
        let writable = writable.chain(writable_mounts.map(|mount| &mount.root));
        let writable = writable
            .filter(|_| !reserved.any_link)
            .filter_map(|root| Some(root.object.as_ref()?.identity()))
            .collect::<Vec<_>>();
        // A writable root may have been reached through a link in another writable root.
        let named = write.iter().map(|root| (PathRole::Write, root));
        let named = named.chain(workspace.iter().map(|root| (PathRole::Workspace, root)));
        for (role, root) in named.chain(mounts.iter().map(|it| (PathRole::Mount, &it.root))) {
            if let Some(object) = &root.object {
                object
                    .refuse_links_in(&writable)
                    .map_err(|cause| error::link(tier, role.name(), &root.requested, cause))?;
            }
        }
        let guarded = rule.writable(writable.iter().copied());
        let read = resolve_all(PathRole::Read, &plan.read_roots, &guarded)?;
        // A host without these files has no names to add.
        let file = |path| std::fs::read(path).unwrap_or_default();
        let names = matches!(plan.network, NetworkPolicy::Full)
            .then(|| (file("/etc/hosts"), file("/etc/resolv.conf")));
        if let Some(root) = &workspace
            && root.kind != FileKind::Folder
        {
            return Err(error::invalid_spec(
                tier,
                format!("workspace {}: not a folder", root.path.display()),
                "name a folder",
            ));
        }
        let open_folder = |what: &str, path: &Path| open_folder(tier, what, path, &writable);
        let shown = read.iter().chain(&write).chain(&workspace);
        let shown = shown.chain(mounts.iter().map(|mount| &mount.root));
        // Without roots, workspace and mounts, nothing visible could contain it.
        let state = match shown.clone().next() {
            None => None,
            Some(_) => open_folder("state folder", reserved.state)?,
        };
        let cache_object = match reserved.packages {
            Some(path) => open_folder("folder of packages", path)?,
            None => None,
        };
        let provided = plan.provided_folders.iter().map(|folder| {
            let found = open_folder("folder of packages", &folder.source)?;
            let gone = || io::Error::from(io::ErrorKind::NotFound);
            found.ok_or_else(|| error::path(tier, "folder of packages", &folder.source, gone()))
        });
        let provided_folders = provided.collect::<Result<_>>()?;
        let processes =
            processes(shown).map_err(|cause| error::setup(tier, "the table of mounts", cause))?;
        Ok(Self {
            cache: cache_object.as_ref().map(|cache| cache.path().to_owned()),
            cache_object,
            state,
            provided_folders,
            platform: platform_roots(),
            read,
            write,
            workspace,
            mounts,
            processes,
            names,
        })
    }
}

/// Opens a folder that the library reserves. `None` if the caller cannot reach it. Its path may
/// contain links, but none that code can replace.
fn open_folder(
    tier: &str,
    what: &str,
    path: &Path,
    writable: &[Identity],
) -> Result<Option<OpenObject>> {
    let rule = LinkRule::new(true).writable(writable.iter().copied());
    match rule.open(path) {
        Ok(opened) => Ok(Some(opened.into())),
        // What the caller cannot reach, code cannot reach either.
        Err(PathError::System { cause, .. })
            if matches!(
                cause.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(cause) => Err(error::link(tier, what, path, cause)),
    }
}

/// Where procfs is mounted in these roots.
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
