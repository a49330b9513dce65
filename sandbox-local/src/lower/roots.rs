//! The folders and files of the host that a sandbox sees: their mount order, and what is hidden in
//! them.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sandbox_core::{Error, Plan, Result};
use sandbox_host::WORK_FOLDER;
use sandbox_lang::packages::targets;

use super::LoweringContext;
use crate::error;
use crate::host::{FileKind, Isolation, MountedRoot, OpenObject, PathRole, Root, Stamp};

/// The host's paths in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Roots<'a> {
    /// Bind mounts: first those at the path that they have on the host, parents before children,
    /// then those at a target.
    pub(super) binds: Vec<Bind<'a>>,
    /// Small files that are copied instead.
    pub(super) copies: Vec<(&'a Path, Stamp)>,
    /// Links that lead to a bind: the location and the target of each.
    pub(super) links: Vec<(&'a Path, &'a Path)>,
    /// Paths under which the state folder would appear, or through which installed packages could
    /// be changed.
    pub(super) masks: Vec<Mask>,
}

/// A path to hide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mask {
    pub(super) path: PathBuf,
    /// The object that must be there. `None` if the path may be missing.
    pub(super) object: Option<OpenObject>,
}

/// A bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bind<'a> {
    /// The path in the sandbox.
    pub(super) path: &'a Path,
    /// The path on the host.
    pub(super) source: &'a Path,
    /// Whether the plan chose the path in the sandbox.
    pub(super) has_target: bool,
    pub(super) read_only: bool,
    pub(super) kind: FileKind,
    /// The object that the path must lead to on the host.
    pub(super) object: Option<&'a OpenObject>,
}

impl<'a> Roots<'a> {
    pub(super) fn of(plan: &Plan, context: &LoweringContext<'a>) -> Result<Self> {
        let host_paths = context.host_paths;
        let mut wanted = Vec::<Bind<'_>>::new();
        let mut links = Vec::<(&Path, &Path)>::new();
        let mut copies = Vec::new();
        let named = [
            (PathRole::Read, &host_paths.read),
            (PathRole::Write, &host_paths.write),
        ];
        for (role, root) in named
            .iter()
            .flat_map(|(role, roots)| roots.iter().map(|r| (*role, r)))
        {
            check(plan, context, role, root)?;
            wanted.push(Bind {
                path: &root.path,
                source: &root.path,
                has_target: false,
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
        for root in &*host_paths.platform {
            links.extend(
                root.links
                    .iter()
                    .map(|(at, target)| (at.as_path(), target.as_path())),
            );
            match root.stamp {
                Some(stamp) if context.isolation != Isolation::Landlock => {
                    copies.push((root.path.as_path(), stamp));
                }
                _ => wanted.push(Bind {
                    path: &root.path,
                    source: &root.path,
                    has_target: false,
                    read_only: true,
                    kind: root.kind,
                    object: None,
                }),
            }
        }
        // Byte order puts parents before children; for the same path, writable comes before
        // read-only.
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
        if context.isolation != Isolation::Landlock {
            let named = host_paths.read.iter().chain(&host_paths.write);
            let named = named.map(|root| (root, &*root.path));
            let mounts = host_paths.mounts.iter().map(|it| (&it.root, &*it.target));
            let state = (context.state, host_paths.state.as_ref());
            roots.mask_in(named.chain(mounts), state);
            if roots.access(context.state).is_some() {
                roots.mask(context.state.into(), host_paths.state.as_ref());
            }
        }
        for mount in &host_paths.mounts {
            let bind = roots.bind_of(mount, context)?;
            roots.binds.push(bind);
        }
        roots.protect_packages(plan, context)?;
        roots.hide_processes(plan, context)?;
        if let Some(workspace) = &context.host_paths.workspace {
            check_state(context, PathRole::Workspace, workspace)?;
            check_own(context, PathRole::Workspace, workspace)?;
            if plan.workspace.is_some() {
                let state = (context.state, host_paths.state.as_ref());
                roots.mask_in([(workspace, Path::new(WORK_FOLDER))], state);
            }
        }
        Ok(roots)
    }

    /// The bind of a mount. Its target must be free: its mount point could not be made in a folder
    /// of the host, and would hide what every sandbox needs.
    fn bind_of(&self, mount: &'a MountedRoot, context: &LoweringContext<'_>) -> Result<Bind<'a>> {
        let MountedRoot { root, target, .. } = mount;
        check_state(context, PathRole::Mount, root)?;
        check_own(context, PathRole::Mount, root)?;
        if context.isolation == Isolation::Landlock {
            return Err(error::unsupported(
                context.tier,
                format!(
                    "mount of {} at {}: this host gives no mount namespace, so every path is the host's own",
                    root.path.display(),
                    target.display()
                ),
                "name the folder as a read or write root, or enable user namespaces",
            ));
        }
        if root.kind == FileKind::Other {
            let why = "neither a folder nor a regular file";
            return Err(refused(
                context,
                PathRole::Mount,
                root,
                why,
                "name one of these",
            ));
        }
        let binds = self.binds.iter().filter(|bind| !bind.has_target);
        let taken = binds.map(|bind| bind.path);
        let taken = taken.chain(self.links.iter().map(|(at, _)| *at));
        let mut taken = taken.chain([Path::new("/etc")]);
        if let Some(other) = taken.find(|it| is_within(target, it) || is_within(it, target)) {
            let target = target.display();
            let what = format!(
                "mount target {target}: on this tier it overlaps {}, which is the platform's or a root",
                other.display()
            );
            return Err(error::invalid_spec(
                context.tier,
                what,
                "use another path, such as one in /mnt",
            ));
        }
        Ok(Bind {
            path: target,
            source: &root.path,
            has_target: true,
            read_only: mount.read_only,
            kind: root.kind,
            object: root.object.as_ref(),
        })
    }

    /// Hides procfs where it is mounted in a root, as in a chroot folder.
    fn hide_processes(&mut self, plan: &Plan, context: &LoweringContext<'_>) -> Result<()> {
        let workspace = context.host_paths.workspace.as_ref();
        for place in &context.host_paths.processes {
            let inside = workspace
                .and_then(|root| place.strip_prefix(&root.path).ok())
                .filter(|_| plan.workspace.is_some());
            let is_root = self.access(place).is_some();
            if context.isolation == Isolation::Landlock {
                let why = "the host's processes would be seen there";
                let mut named = context
                    .host_paths
                    .read
                    .iter()
                    .chain(&context.host_paths.write);
                if let Some(root) = named.find(|root| place.starts_with(&root.path)) {
                    return Err(refused(
                        context,
                        PathRole::Read,
                        root,
                        why,
                        "unmount it, or name the folders beside it",
                    ));
                }
                if let (Some(root), Some(_)) = (workspace, inside) {
                    return Err(refused(
                        context,
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
            for mount in &context.host_paths.mounts {
                if let Ok(below) = place.strip_prefix(&mount.root.path) {
                    self.mask(mount.target.join(below), None);
                }
            }
            if let Some(below) = inside {
                self.mask(Path::new(WORK_FOLDER).join(below), None);
            }
        }
        Ok(())
    }

    /// Hides the folder of installed packages where code could write to it: other sandboxes run
    /// what is in there.
    fn protect_packages(&mut self, plan: &Plan, context: &LoweringContext<'_>) -> Result<()> {
        let Some(cache) = &context.host_paths.cache else {
            return Ok(());
        };
        let workspace = match &plan.workspace {
            Some(workspace) if !workspace.read_only => context.host_paths.workspace.as_ref(),
            _ => None,
        };
        let cache = (&**cache, context.host_paths.cache_object.as_ref());
        if context.isolation == Isolation::Landlock {
            let mut around = context.host_paths.write.iter().chain(workspace);
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
                        context,
                        role,
                        root,
                        &why,
                        "name another folder, or set another XDG_CACHE_HOME",
                    ))
                }
            };
        }
        let write = context.host_paths.write.iter();
        self.mask_in(write.map(|root| (root, &*root.path)), cache);
        let mounts = context.host_paths.mounts.iter().filter(|it| !it.read_only);
        self.mask_in(mounts.map(|it| (&it.root, &*it.target)), cache);
        self.mask_in(workspace.map(|root| (root, Path::new(WORK_FOLDER))), cache);
        Ok(())
    }

    /// Hides a path of the host in each of these folders that contains it. The second path of a
    /// pair is the folder's mount point.
    fn mask_in<'b>(
        &mut self,
        folders: impl IntoIterator<Item = (&'b Root, &'b Path)>,
        hidden: (&Path, Option<&OpenObject>),
    ) {
        for (root, mounted) in folders {
            if let Some(below) = below(root, hidden) {
                self.mask(mounted.join(below), hidden.1);
            }
        }
    }

    fn mask(&mut self, path: PathBuf, object: Option<&OpenObject>) {
        if self.masks.iter().all(|mask| mask.path != path) {
            let object = object.cloned();
            self.masks.push(Mask { path, object });
        }
    }

    /// Folders that code could rename together with a mount in them: the parents of mount points
    /// that are in a writable folder. Parents come before children.
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
            // A mount point cannot be renamed.
            .filter(|folder| self.binds.iter().all(|bind| bind.path != *folder))
            .collect()
    }

    /// Whether a path of the sandbox belongs to the host: `Some(true)` if it is read-only.
    pub(super) fn access(&self, path: &Path) -> Option<bool> {
        let holding = self
            .binds
            .iter()
            .rev()
            .find(|bind| is_within(path, bind.path));
        holding.map(|bind| bind.read_only)
    }

    /// Whether a read root is inside of a write root, where only its own mount protects it.
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

    /// Whether code may write to the host through a root.
    pub(super) fn writable(&self) -> bool {
        self.binds.iter().any(|bind| !bind.read_only)
    }
}

/// Whether `path` is `folder` or below it. Both are resolved, so comparing bytes suffices. That is
/// ten times as fast as comparing components, and every pair of roots is compared.
pub(super) fn is_within(path: &Path, folder: &Path) -> bool {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    match path.strip_prefix(folder) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || folder == b"/",
        None => false,
    }
}

/// Whether every sandbox has its own folder at this path.
fn is_own(path: &Path) -> bool {
    [WORK_FOLDER, "/tmp", "/dev", "/proc"]
        .iter()
        .any(|own| path == Path::new(own))
}

/// The path relative to a root of something in it.
fn below(root: &Root, (path, object): (&Path, Option<&OpenObject>)) -> Option<PathBuf> {
    match (&root.object, object) {
        (Some(folder), Some(object)) => object.below(folder),
        _ => path.strip_prefix(&root.path).ok().map(Path::to_owned),
    }
}

fn check(plan: &Plan, context: &LoweringContext<'_>, role: PathRole, root: &Root) -> Result<()> {
    check_state(context, role, root)?;
    check_own(context, role, root)?;
    if context.isolation == Isolation::Landlock {
        return Ok(());
    }
    let path = &root.path;
    if path.starts_with(WORK_FOLDER) {
        let why = "the sandbox's work folder is there";
        return Err(refused(
            context,
            role,
            root,
            why,
            "pass the folder as the workspace",
        ));
    }
    let mut provided = plan.provided_folders.iter().map(|one| &one.target);
    if targets(plan).any(|target| is_within(path, Path::new(target)))
        || provided.any(|target| is_within(path, target))
    {
        let why = "packages that a policy names are there";
        return Err(refused(
            context,
            role,
            root,
            why,
            "move it, or pass it as the workspace",
        ));
    }
    if path == Path::new("/tmp") && role == PathRole::Read {
        let why = "a sandbox has a /tmp of its own, which it may write to";
        return Err(refused(context, role, root, why, "name the folders in it"));
    }
    Ok(())
}

/// Refuses procfs and devices of the host.
fn check_own(context: &LoweringContext<'_>, role: PathRole, root: &Root) -> Result<()> {
    let path = &root.path;
    let devices = context.isolation != Isolation::Landlock && is_within(path, Path::new("/dev"));
    if devices || is_within(path, Path::new("/proc")) {
        let why = "the host's processes and devices are not shown; a sandbox has a /proc and a /dev of its own";
        return Err(refused(context, role, root, why, "leave it out"));
    }
    Ok(())
}

/// Refuses a root that shows the state folder. With mounts, a root around the state folder is fine:
/// the state folder is masked.
fn check_state(context: &LoweringContext<'_>, role: PathRole, root: &Root) -> Result<()> {
    let state = context.host_paths.state.as_ref();
    let is_within = |state| {
        root.object
            .as_ref()
            .is_some_and(|root| root.is_within(state))
    };
    let inside = root.path.starts_with(context.state) || state.is_some_and(is_within);
    let around =
        below(root, (context.state, state)).is_some() && context.isolation == Isolation::Landlock;
    if inside || around {
        let why = format!("it shows the state folder {}", context.state.display());
        return Err(refused(
            context,
            role,
            root,
            &why,
            "name another folder, or set another state folder",
        ));
    }
    Ok(())
}

fn refused(
    context: &LoweringContext<'_>,
    role: PathRole,
    root: &Root,
    why: &str,
    fix: &str,
) -> Error {
    let what = format!("{} {}: {why}", role.name(), root.path.display());
    match role {
        PathRole::Workspace | PathRole::Mount => error::invalid_spec(context.tier, what, fix),
        PathRole::Read | PathRole::Write => error::invalid_policy(context.tier, what, fix),
    }
}
