//! The folders and files of the host that a sandbox sees: in which order they are mounted, and what lies outside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox_core::{Error, Plan, Result};
use sandbox_host::WORK_FOLDER;

use super::Site;
use crate::error;
use crate::host::{Isolation, PathRole, Root};

/// The host's paths in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Roots {
    /// What is mounted at its own path, outer before inner: path and whether it is read-only.
    pub(super) binds: Vec<(PathBuf, bool)>,
    /// Small files that are copied instead: path and content.
    pub(super) copies: Vec<(PathBuf, Vec<u8>)>,
    /// Links that lead to a bind: where each stands, and what it says.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Paths in the sandbox under which the state folder would appear.
    pub(super) masks: Vec<PathBuf>,
}

impl Roots {
    pub(super) fn of(plan: &Plan, site: &Site<'_>) -> Result<Self> {
        let mut roots = Self::default();
        let mut wanted = BTreeMap::<PathBuf, bool>::new();
        let mut links = BTreeMap::<PathBuf, PathBuf>::new();
        let platform = site
            .material
            .platform
            .iter()
            .map(|root| (PathRole::Read, root));
        let read = site.material.read.iter().map(|root| (PathRole::Read, root));
        let write = site
            .material
            .write
            .iter()
            .map(|root| (PathRole::Write, root));
        for (role, root) in platform.chain(read).chain(write) {
            check(site, role, root)?;
            links.extend(root.links.iter().cloned());
            match &root.content {
                Some(content) if site.isolation != Isolation::Landlock => {
                    roots.copies.push((root.path.clone(), content.clone()));
                }
                _ => drop(wanted.insert(root.path.clone(), role == PathRole::Read)),
            }
        }
        // By path, an outer folder comes before what is in it.
        for (path, read_only) in wanted {
            if roots.access(&path) != Some(read_only) {
                roots.binds.push((path, read_only));
            }
        }
        let binds = std::mem::take(&mut roots.copies);
        roots.copies = binds
            .into_iter()
            .filter(|(path, _)| roots.access(path).is_none())
            .collect();
        for (at, target) in links {
            if roots.access(&at).is_none() && !is_own(&at) {
                roots.links.push((at, target));
            }
        }
        if site.isolation != Isolation::Landlock && roots.access(site.state).is_some() {
            roots.masks.push(site.state.into());
        }
        if let Some(workspace) = &site.material.workspace {
            check_state(site, PathRole::Workspace, workspace)?;
            if let Ok(below) = site.state.strip_prefix(&workspace.path)
                && plan.workspace.is_some()
            {
                roots.masks.push(Path::new(WORK_FOLDER).join(below));
            }
        }
        Ok(roots)
    }

    /// Whether a path of the sandbox is one of the host's: `Some(true)` where it can only be read.
    pub(super) fn access(&self, path: &Path) -> Option<bool> {
        let holding = self
            .binds
            .iter()
            .rev()
            .find(|(bind, _)| path.starts_with(bind));
        holding.map(|(_, read_only)| *read_only)
    }

    /// Whether a read root lies in a write root: only a mount of its own protects it there.
    pub(super) fn has_read_only_below_writable(&self) -> bool {
        let writable = self.binds.iter().filter(|(_, read_only)| !read_only);
        let mut read_only = self.binds.iter().filter(|(_, read_only)| *read_only);
        let writable = writable.collect::<Vec<_>>();
        read_only.any(|(path, _)| writable.iter().any(|(outer, _)| path.starts_with(outer)))
    }

    /// Whether code may write to anything of the host through a root.
    pub(super) fn writable(&self) -> bool {
        self.binds.iter().any(|(_, read_only)| !read_only)
    }
}

/// Whether a path is one that every sandbox has of its own.
fn is_own(path: &Path) -> bool {
    [WORK_FOLDER, "/tmp", "/dev", "/proc"]
        .iter()
        .any(|own| path == Path::new(own))
}

fn check(site: &Site<'_>, role: PathRole, root: &Root) -> Result<()> {
    check_state(site, role, root)?;
    if site.isolation == Isolation::Landlock {
        return Ok(());
    }
    let path = &root.path;
    if path.starts_with("/proc") || path.starts_with("/dev") {
        return Err(refused(
            site,
            role,
            root,
            "a sandbox has its own /proc and /dev",
            "leave it out",
        ));
    }
    if path.starts_with(WORK_FOLDER) {
        let why = "the sandbox's work folder is there";
        return Err(refused(
            site,
            role,
            root,
            why,
            "pass the folder as the workspace",
        ));
    }
    if path == Path::new("/tmp") && role == PathRole::Read {
        let why = "a sandbox has a /tmp of its own, which it may write to";
        return Err(refused(site, role, root, why, "name the folders in it"));
    }
    Ok(())
}

/// Nothing of the state folder may be seen; a folder that holds it is masked where there are mounts.
fn check_state(site: &Site<'_>, role: PathRole, root: &Root) -> Result<()> {
    let inside = root.path.starts_with(site.state);
    let around = site.state.starts_with(&root.path) && site.isolation == Isolation::Landlock;
    if inside || around {
        let why = format!("it shows the state folder {}", site.state.display());
        return Err(refused(
            site,
            role,
            root,
            &why,
            "name another folder, or set another state folder",
        ));
    }
    Ok(())
}

fn refused(site: &Site<'_>, role: PathRole, root: &Root, why: &str, fix: &str) -> Error {
    let context = format!("{} {}: {why}", role.name(), root.path.display());
    match role {
        PathRole::Workspace => error::invalid_spec(site.tier, context, fix),
        PathRole::Read | PathRole::Write => error::invalid_policy(site.tier, context, fix),
    }
}
