//! The file system of a sandbox.
//!
//! The root is read-only: the platform, the roots of the policy, and a few generated files.
//! Everything that code may write is on one more tmpfs of the plan's size. Its folders appear as
//! `/tmp`, `/dev/shm`, the work folder and the folders of exported files, so one limit covers all
//! of them. The new process mounts that tmpfs in its mount namespace, on a folder of the state
//! folder.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sandbox_agent::protocol::{Mount, Setup};
use sandbox_core::Plan;
use sandbox_host::confinement::{Mode, export_folders};
use sandbox_host::{WORK_FOLDER, egress_ranges};

use super::etc::{Etc, HOST_NAME, is_in_etc};
use super::roots::Roots;
use super::{LoweringContext, carries_rules};
use super::{proc_files, python_alias, sys_files, user_limits};
use crate::host::{Isolation, OpenObject};

/// Device files of the host that keep no state.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Leads each process to the controlling terminal of its own session; `ENXIO` without one. Code
/// starts in a session without the caller's terminal.
const CONTROLLING_TERMINAL: &str = "/dev/tty";

/// The sandbox's own terminals.
const TERMINALS: &str = "/dev/pts";

/// Maximum number of terminals of a sandbox. The kernel's own maximum, 4096 by default, is for all
/// of the host.
const MOST_TERMINALS: u32 = 64;

/// Links in `/dev` that programs rely on.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// The page size: the minimum size of a file.
const PAGE_SIZE: u64 = 4096;

/// Inodes for the folders of the writable tmpfs.
const OWN_INODES: u64 = 256;

/// The folder in the state folder on which that tmpfs is mounted.
pub(crate) const SCRATCH: &str = "scratch";

/// The tmpfs that code may write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scratch {
    /// Bytes.
    pub(crate) size: u64,
    /// The maximum number of files and folders, so that empty ones are limited too.
    pub(crate) inodes: u64,
    pub(crate) folders: Vec<ScratchFolder>,
}

/// A folder of the tmpfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScratchFolder {
    /// Its name in the tmpfs.
    pub(crate) name: String,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Whether the code owns it.
    pub(crate) owned: bool,
}

/// The setup of a sandbox with its own root, its writable tmpfs, and its `/etc`.
pub(super) fn setup(
    plan: &Plan,
    context: &LoweringContext<'_>,
    mode: Mode,
    roots: &Roots<'_>,
) -> (Setup, Scratch, Option<Etc>) {
    let scratch = context.state.join(SCRATCH);
    let mut writable = WritableMounts {
        scratch: &scratch,
        mounts: Vec::new(),
        folders: Vec::new(),
    };
    if roots.access(Path::new("/tmp")).is_none() {
        writable.folder("/tmp", 0o1777, false);
    }
    // `/tmp` comes first, since a root can be below it.
    let mut mounts = std::mem::take(&mut writable.mounts);
    let export_folders = own_export_folders(plan, roots);
    let etc = Etc::of(
        mode,
        context.host_paths,
        carries_rules(plan, context),
        roots,
        &export_folders,
    );
    if let Some(etc) = &etc {
        mounts.push(bind(&etc.folder(context.state), Path::new("/etc"), true));
    }
    for (at, says) in &roots.links {
        if etc.is_none() || !is_in_etc(at) {
            mounts.push(Mount::Symlink {
                points_to: bytes(says),
                target: bytes(at),
            });
        }
    }
    let binds = |has_target| {
        let binds = roots.binds.iter();
        binds
            .filter(move |one| one.has_target == has_target)
            .map(|one| with_object(bind(one.source, one.path, one.read_only), one.object))
    };
    mounts.extend(binds(false));
    let provided = plan
        .provided_folders
        .iter()
        .enumerate()
        .map(|(number, one)| {
            let object = context.host_paths.provided_folders.get(number);
            with_object(bind(&one.source, &one.target, true), object)
        });
    mounts.extend(provided);
    if context.host.proc_mount.is_present() {
        mounts.push(Mount::Proc {
            target: b"/proc".to_vec(),
        });
    } else {
        mounts.push(Mount::Dir {
            target: b"/proc".to_vec(),
        });
    }
    devices(&mut mounts);
    mounts.extend(sys_files::mounts(roots));
    writable.folder("/dev/shm", 0o1777, false);
    match (&context.host_paths.workspace, &plan.workspace) {
        (Some(root), Some(workspace)) => {
            mounts.push(with_object(
                bind(&root.path, Path::new(WORK_FOLDER), workspace.read_only),
                root.object.as_ref(),
            ));
        }
        _ => writable.folder(WORK_FOLDER, 0o755, true),
    }
    for folder in export_folders {
        writable.folder(&folder, 0o755, true);
    }
    mounts.append(&mut writable.mounts);
    // A target may be in a folder of exported files.
    mounts.extend(binds(true));
    mounts.extend(proc_files::restricted(mode, context.host));
    mounts.extend(python_alias::link(context.host, roots));
    let workspace = plan.workspace.as_ref();
    let movable = roots.movable(workspace.is_some_and(|workspace| !workspace.read_only));
    mounts.extend(movable.into_iter().map(|folder| Mount::Pin {
        target: bytes(folder),
    }));
    let masks = roots.masks.iter();
    mounts.extend(masks.map(|one| mask(&one.path, one.object.as_ref())));
    mounts.push(Mount::ReadOnly {
        target: b"/".to_vec(),
    });

    let scratch = Scratch {
        // The kernel takes 0 as "unlimited".
        size: plan.disk.as_u64().max(PAGE_SIZE),
        inodes: plan.disk.as_u64() / PAGE_SIZE + OWN_INODES,
        folders: writable.folders,
    };
    let setup = Setup {
        new_root: true,
        mounts,
        hostname: HOST_NAME.into(),
        // A network namespace from the network thread has its loopback interface up already.
        loopback: context.isolation == Isolation::UserNamespace && !super::full_network(plan),
        user_namespace: context.isolation == Isolation::Privileged,
        egress: carries_rules(plan, context).then(|| egress_ranges(plan)),
        user_limits: user_limits::of(context.host),
        pid_one: true,
        die_with_parent: true,
    };
    (setup, scratch, etc)
}

/// Collects the folders of the writable tmpfs and their mounts.
struct WritableMounts<'a> {
    scratch: &'a Path,
    mounts: Vec<Mount>,
    folders: Vec<ScratchFolder>,
}

impl WritableMounts<'_> {
    fn folder(&mut self, target: impl AsRef<Path>, mode: u32, owned: bool) {
        let name = self.folders.len().to_string();
        self.mounts
            .push(bind(&self.scratch.join(&name), target.as_ref(), false));
        self.folders.push(ScratchFolder { name, mode, owned });
    }
}

/// The sandbox's own folders for exported files. Excludes folders of the host and folders below a
/// writable one.
fn own_export_folders(plan: &Plan, roots: &Roots<'_>) -> Vec<PathBuf> {
    let mut folders = export_folders(&plan.export_paths);
    folders.retain(|folder| {
        let elsewhere = [WORK_FOLDER, "/tmp", "/proc", "/dev"]
            .iter()
            .any(|own| folder.starts_with(own));
        // An own folder here would hide all of `/etc` or the packages; and links such as `/bin`
        // lead to the platform.
        let hides = folder == Path::new("/etc")
            || plan
                .provided_folders
                .iter()
                .any(|one| folder.starts_with(&one.target))
            || roots.links.iter().any(|(at, _)| folder.starts_with(at));
        !elsewhere && !hides && roots.access(folder).is_none()
    });
    folders
}

fn devices(mounts: &mut Vec<Mount>) {
    for device in DEVICES.into_iter().chain([CONTROLLING_TERMINAL]) {
        mounts.push(Mount::Bind {
            source: device.into(),
            target: device.into(),
            // Preserves modes and owners; devices stay writable.
            read_only: true,
            devices: true,
            // A small container may have no terminals.
            optional: device == CONTROLLING_TERMINAL,
            object: None,
        });
    }
    mounts.push(Mount::Terminals {
        target: TERMINALS.into(),
        most: MOST_TERMINALS,
    });
    for (at, points_to) in DEVICE_LINKS {
        mounts.push(Mount::Symlink {
            points_to: points_to.into(),
            target: at.into(),
        });
    }
}

pub(super) fn bind(source: &Path, target: &Path, read_only: bool) -> Mount {
    Mount::Bind {
        source: bytes(source),
        target: bytes(target),
        read_only,
        devices: false,
        optional: false,
        object: None,
    }
}

/// The same bind, restricted to this object.
fn with_object(mut mount: Mount, wanted: Option<&OpenObject>) -> Mount {
    if let Mount::Bind { object, .. } = &mut mount {
        *object = wanted.map(OpenObject::for_agent);
    }
    mount
}

pub(super) fn mask(path: &Path, object: Option<&OpenObject>) -> Mount {
    Mount::Mask {
        target: bytes(path),
        object: object.map(OpenObject::for_agent),
    }
}

pub(super) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}
