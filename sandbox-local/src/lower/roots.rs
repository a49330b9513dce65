//! The folders and files of the host that a sandbox sees: in which order they are mounted, and what lies outside.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sandbox_core::{Error, Plan, Result};
use sandbox_host::WORK_FOLDER;
use sandbox_lang::packages::TARGET;

use super::Site;
use crate::error;
use crate::host::{Isolation, Kind, Object, PathRole, Root, Stamp};

/// The host's paths in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Roots<'a> {
    /// What is mounted at its own path, outer before inner.
    pub(super) binds: Vec<Bind<'a>>,
    /// Small files that are copied instead.
    pub(super) copies: Vec<(&'a Path, Stamp)>,
    /// Links that lead to a bind: where each stands, and what it says.
    pub(super) links: Vec<(&'a Path, &'a Path)>,
    /// Paths in the sandbox under which the state folder would appear, and where installed packages could be changed.
    pub(super) masks: Vec<Mask>,
}

/// What is hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mask {
    pub(super) path: PathBuf,
    /// What must be there; where nothing need be, `None`.
    pub(super) object: Option<Object>,
}

/// One that is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bind<'a> {
    pub(super) path: &'a Path,
    pub(super) read_only: bool,
    pub(super) kind: Kind,
    /// What the path must lead to on the host.
    pub(super) object: Option<&'a Object>,
}

impl<'a> Roots<'a> {
    pub(super) fn of(plan: &Plan, site: &Site<'a>) -> Result<Self> {
        let material = site.material;
        let mut wanted = Vec::<Bind<'_>>::new();
        let mut links = Vec::<(&Path, &Path)>::new();
        let mut copies = Vec::new();
        let named = [
            (PathRole::Read, &material.read),
            (PathRole::Write, &material.write),
        ];
        for (role, root) in named
            .iter()
            .flat_map(|(role, roots)| roots.iter().map(|r| (*role, r)))
        {
            check(site, role, root)?;
            wanted.push(Bind {
                path: &root.path,
                read_only: role == PathRole::Read,
                kind: root.kind,
                object: root.object.as_ref(),
            });
            links.extend(
                root.links
                    .iter()
                    .map(|(at, target)| (at.as_path(), target.as_path())),
            );
        }
        for root in &*material.platform {
            links.extend(
                root.links
                    .iter()
                    .map(|(at, target)| (at.as_path(), target.as_path())),
            );
            match root.stamp {
                Some(stamp) if site.isolation != Isolation::Landlock => {
                    copies.push((root.path.as_path(), stamp));
                }
                _ => wanted.push(Bind {
                    path: &root.path,
                    read_only: true,
                    kind: root.kind,
                    object: None,
                }),
            }
        }
        // By their bytes, an outer folder comes before what is in it; and what can be written before what cannot.
        wanted.sort_unstable_by_key(|bind| {
            (bind.path.as_os_str(), bind.read_only, bind.object.is_none())
        });
        wanted.dedup_by_key(|bind| bind.path.as_os_str());
        let mut roots = Self::default();
        for bind in wanted {
            if roots.access(bind.path) != Some(bind.read_only) {
                roots.binds.push(bind);
            }
        }
        copies.retain(|(path, _)| roots.access(path).is_none());
        roots.copies = copies;
        links.sort_unstable_by_key(|(at, _)| at.as_os_str());
        links.dedup_by_key(|(at, _)| at.as_os_str());
        links.retain(|(at, _)| roots.access(at).is_none() && !is_own(at));
        roots.links = links;
        if site.isolation != Isolation::Landlock {
            let named = material.read.iter().chain(&material.write);
            let state = (site.state, material.state.as_ref());
            roots.mask_in(named.map(|root| (root, &*root.path)), state);
            if roots.access(site.state).is_some() {
                roots.mask(site.state.into(), material.state.as_ref());
            }
        }
        roots.protect_packages(plan, site)?;
        roots.hide_processes(plan, site)?;
        if let Some(workspace) = &site.material.workspace {
            check_state(site, PathRole::Workspace, workspace)?;
            check_own(site, PathRole::Workspace, workspace)?;
            if plan.workspace.is_some() {
                let state = (site.state, material.state.as_ref());
                roots.mask_in([(workspace, Path::new(WORK_FOLDER))], state);
            }
        }
        Ok(roots)
    }

    /// Hides the host's processes where a file system of them is mounted in a root, as in the folder of a chroot.
    fn hide_processes(&mut self, plan: &Plan, site: &Site<'_>) -> Result<()> {
        let workspace = site.material.workspace.as_ref();
        for place in &site.material.processes {
            let inside = workspace
                .and_then(|root| place.strip_prefix(&root.path).ok())
                .filter(|_| plan.workspace.is_some());
            let is_root = self.access(place).is_some();
            if site.isolation == Isolation::Landlock {
                let why = "the host's processes would be seen there";
                let mut named = site.material.read.iter().chain(&site.material.write);
                if let Some(root) = named.find(|root| place.starts_with(&root.path)) {
                    return Err(refused(
                        site,
                        PathRole::Read,
                        root,
                        why,
                        "unmount it, or name the folders beside it",
                    ));
                }
                if let (Some(root), Some(_)) = (workspace, inside) {
                    return Err(refused(
                        site,
                        PathRole::Workspace,
                        root,
                        why,
                        "unmount it, or name another folder",
                    ));
                }
                continue;
            }
            if is_root {
                self.mask(place.clone(), None);
            }
            if let Some(below) = inside {
                self.mask(Path::new(WORK_FOLDER).join(below), None);
            }
        }
        Ok(())
    }

    /// Hides the folder of installed packages where code could write to it: what it left there would run in other sandboxes.
    fn protect_packages(&mut self, plan: &Plan, site: &Site<'_>) -> Result<()> {
        let Some(cache) = &site.material.cache else {
            return Ok(());
        };
        let workspace = match &plan.workspace {
            Some(workspace) if !workspace.read_only => site.material.workspace.as_ref(),
            _ => None,
        };
        let cache = (&**cache, site.material.cache_object.as_ref());
        if site.isolation == Isolation::Landlock {
            let mut around = site.material.write.iter().chain(workspace);
            return match around.rfind(|root| below(root, cache).is_some()) {
                None => Ok(()),
                Some(root) => {
                    let role = match workspace.and_then(|root| below(root, cache)) {
                        Some(_) => PathRole::Workspace,
                        None => PathRole::Write,
                    };
                    let why = format!(
                        "code could change the installed packages in {}",
                        cache.0.display()
                    );
                    Err(refused(
                        site,
                        role,
                        root,
                        &why,
                        "name another folder, or set another XDG_CACHE_HOME",
                    ))
                }
            };
        }
        let write = site.material.write.iter();
        self.mask_in(write.map(|root| (root, &*root.path)), cache);
        self.mask_in(workspace.map(|root| (root, Path::new(WORK_FOLDER))), cache);
        Ok(())
    }

    /// Hides something of the host in each of these folders that it lies in; beside each folder is where it is mounted.
    fn mask_in<'b>(
        &mut self,
        folders: impl IntoIterator<Item = (&'b Root, &'b Path)>,
        hidden: (&Path, Option<&Object>),
    ) {
        for (root, mounted) in folders {
            if let Some(below) = below(root, hidden) {
                self.mask(mounted.join(below), hidden.1);
            }
        }
    }

    fn mask(&mut self, path: PathBuf, object: Option<&Object>) {
        if self.masks.iter().all(|mask| mask.path != path) {
            let object = object.cloned();
            self.masks.push(Mask { path, object });
        }
    }

    /// The folders that code could rename, and with them what is mounted in them: those above a mount point whose own parents can be
    /// written. Outer before inner.
    pub(super) fn movable(&self, workspace_is_writable: bool) -> BTreeSet<&Path> {
        let writable = |folder: &Path| {
            self.access(folder) == Some(false)
                || (workspace_is_writable && is_within(folder, Path::new(WORK_FOLDER)))
        };
        let points = self.binds.iter().map(|bind| bind.path);
        let points = points.chain(self.masks.iter().map(|mask| &*mask.path));
        points
            .flat_map(|point| point.ancestors().skip(1))
            .filter(|folder| folder.parent().is_some_and(writable))
            // A mount point already.
            .filter(|folder| self.binds.iter().all(|bind| bind.path != *folder))
            .collect()
    }

    /// Whether a path of the sandbox is one of the host's: `Some(true)` where it can only be read.
    pub(super) fn access(&self, path: &Path) -> Option<bool> {
        let holding = self
            .binds
            .iter()
            .rev()
            .find(|bind| is_within(path, bind.path));
        holding.map(|bind| bind.read_only)
    }

    /// Whether a read root lies in a write root: only a mount of its own protects it there.
    pub(super) fn has_read_only_below_writable(&self) -> bool {
        let writable = self
            .binds
            .iter()
            .filter(|bind| !bind.read_only)
            .collect::<Vec<_>>();
        let mut read_only = self.binds.iter().filter(|bind| bind.read_only);
        read_only.any(|bind| {
            writable
                .iter()
                .any(|outer| is_within(bind.path, outer.path))
        })
    }

    /// Whether code may write to anything of the host through a root.
    pub(super) fn writable(&self) -> bool {
        self.binds.iter().any(|bind| !bind.read_only)
    }
}

/// Whether `path` is `folder` or below it. Both are looked up, so that bytes say it, which is ten times as fast as comparing
/// parts; and every pair of roots is compared.
pub(super) fn is_within(path: &Path, folder: &Path) -> bool {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    match path.strip_prefix(folder) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || folder == b"/",
        None => false,
    }
}

/// Whether a path is one that every sandbox has of its own.
fn is_own(path: &Path) -> bool {
    [WORK_FOLDER, "/tmp", "/dev", "/proc"]
        .iter()
        .any(|own| path == Path::new(own))
}

/// Where something of the host lies in a root, as a path below it.
fn below(root: &Root, (path, object): (&Path, Option<&Object>)) -> Option<PathBuf> {
    match (&root.object, object) {
        (Some(folder), Some(object)) => object.below(folder),
        _ => path.strip_prefix(&root.path).ok().map(Path::to_owned),
    }
}

fn check(site: &Site<'_>, role: PathRole, root: &Root) -> Result<()> {
    check_state(site, role, root)?;
    check_own(site, role, root)?;
    if site.isolation == Isolation::Landlock {
        return Ok(());
    }
    let path = &root.path;
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
    if is_within(path, Path::new(TARGET)) {
        let why = "packages that a policy names are there";
        return Err(refused(
            site,
            role,
            root,
            why,
            "move it, or pass it as the workspace",
        ));
    }
    if path == Path::new("/tmp") && role == PathRole::Read {
        let why = "a sandbox has a /tmp of its own, which it may write to";
        return Err(refused(site, role, root, why, "name the folders in it"));
    }
    Ok(())
}

/// The host's processes and devices are no files to show.
fn check_own(site: &Site<'_>, role: PathRole, root: &Root) -> Result<()> {
    let path = &root.path;
    let devices = site.isolation != Isolation::Landlock && is_within(path, Path::new("/dev"));
    if devices || is_within(path, Path::new("/proc")) {
        let why = "the host's processes and devices are not shown; a sandbox has a /proc and a /dev of its own";
        return Err(refused(site, role, root, why, "leave it out"));
    }
    Ok(())
}

/// Nothing of the state folder may be seen; a folder that holds it is masked where there are mounts.
fn check_state(site: &Site<'_>, role: PathRole, root: &Root) -> Result<()> {
    let state = site.material.state.as_ref();
    let is_within = |state| {
        root.object
            .as_ref()
            .is_some_and(|root| root.is_within(state))
    };
    let inside = root.path.starts_with(site.state) || state.is_some_and(is_within);
    let around =
        below(root, (site.state, state)).is_some() && site.isolation == Isolation::Landlock;
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
