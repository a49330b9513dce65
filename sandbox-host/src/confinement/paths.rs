//! The paths that Landlock grants, as seen inside the sandbox.

use std::path::{Path, PathBuf};

use sandbox_core::Plan;

use super::{Isolation, PLATFORM_ETC, PLATFORM_READ_ROOTS};

/// Device files that all programs may use.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Terminals, for sandboxes with a `/dev/pts` of their own. The host's would be terminals of the
/// user's other sessions.
const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts", "/dev/tty"];

/// Files of the host's `/proc` that describe the machine and no processes. A rule for `/proc/self`
/// would apply to the process that created the rules, so programs cannot read about themselves
/// there.
const HOST_PROC: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
];

/// Writable folders of each sandbox.
const SCRATCH: &[&str] = &["/tmp", "/dev/shm", "/dev/mqueue"];

const WORKSPACE: &str = "/workspace";

/// Paths by permitted access, which includes everything below them. Missing paths are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// Read and execute files, list folders.
    pub read: Vec<PathBuf>,
    /// List folders only.
    pub list: Vec<PathBuf>,
    /// Everything except creating device files.
    pub write: Vec<PathBuf>,
    /// Read, write and control device files.
    pub devices: Vec<PathBuf>,
}

impl Paths {
    /// The paths of a plan with this isolation. The backend must mount the workspace at
    /// `/workspace`, roots at their own paths, mounts at their targets, and scratch space at `/tmp`
    /// and `/dev/shm`. Without a root of the sandbox's own, there can be no mounts.
    ///
    /// - [`Isolation::Namespaces`]: readable are the platform's and the plan's read roots, `/proc`
    ///   and the workspace. Writable are the scratch folders, the write roots, a workspace that is
    ///   not read-only, and the folders of exported files. All folders can be listed, since the
    ///   root contains nothing else.
    /// - [`Isolation::Container`]: the same, with the whole image readable.
    /// - [`Isolation::Host`]: the same read roots, the workspace at its own path, and the files of
    ///   `/proc` that describe no processes. No terminals or scratch folders: the backend adds
    ///   private folders.
    #[must_use]
    pub fn of(plan: &Plan, isolation: Isolation) -> Self {
        let mut paths = Self {
            devices: owned(DEVICES),
            ..Self::default()
        };
        match isolation {
            Isolation::Namespaces => {
                paths.read = read_roots(plan);
                paths.read.push("/proc".into());
                paths.list.push("/".into());
            }
            Isolation::Container => paths.read.push("/".into()),
            Isolation::Host => {
                paths.read = read_roots(plan);
                paths.read.extend(owned(HOST_PROC));
            }
        }
        if isolation != Isolation::Host {
            paths.devices.extend(owned(TERMINALS));
            paths.write.extend(owned(SCRATCH));
            paths.write.extend(export_folders(&plan.export_paths));
        }
        if let Some(workspace) = &plan.workspace {
            let path = match isolation {
                Isolation::Host => workspace.path.clone(),
                _ => WORKSPACE.into(),
            };
            if workspace.read_only {
                paths.read.push(path)
            } else {
                paths.write.push(path)
            }
        }
        paths.write.extend(plan.write_roots.iter().cloned());
        let mounts = plan.mounts.iter().map(|it| (&it.target, it.read_only));
        let volumes = plan.volumes.iter().map(|it| (&it.target, it.read_only));
        for (target, read_only) in mounts.chain(volumes) {
            let list = match read_only {
                true => &mut paths.read,
                false => &mut paths.write,
            };
            list.push(target.clone());
        }
        paths
    }
}

fn read_roots(plan: &Plan) -> Vec<PathBuf> {
    let platform = PLATFORM_READ_ROOTS
        .iter()
        .chain(PLATFORM_ETC)
        .map(PathBuf::from);
    platform.chain(plan.read_roots.iter().cloned()).collect()
}

fn owned(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

/// The folders of files that match these patterns: sorted, unique, and without those that are
/// inside of another.
///
/// The part before the first wildcard decides: `/output/*.csv` and `/output/report.json` both give
/// `/output`. A name directly below the root (`/output`) gives itself. A wildcard directly below
/// the root (`/*.csv`) gives nothing, since the root is not writable.
#[must_use]
pub fn export_folders(patterns: &[String]) -> Vec<PathBuf> {
    let mut folders = patterns
        .iter()
        .filter_map(|pattern| export_folder(pattern))
        .collect::<Vec<_>>();
    folders.sort();
    folders.dedup();
    let all = folders.clone();
    folders.retain(|folder| {
        !all.iter()
            .any(|other| other != folder && folder.starts_with(other))
    });
    folders
}

fn export_folder(pattern: &str) -> Option<PathBuf> {
    // In the working folder, the code makes its folders itself.
    if !pattern.starts_with('/') {
        return None;
    }
    const WILDCARDS: [char; 5] = ['*', '?', '[', '{', '\\'];
    let root = Path::new("/");
    let folder = match pattern.find(WILDCARDS) {
        Some(wildcard) => Path::new(&pattern[..=pattern[..wildcard].rfind('/')?]).to_path_buf(),
        None => match Path::new(pattern).parent()? {
            parent if parent == root => Path::new(pattern).to_path_buf(),
            parent => parent.to_path_buf(),
        },
    };
    // Normalizes trailing separators, so that equal folders compare equal.
    let folder = folder.components().collect::<PathBuf>();
    (folder != root).then_some(folder)
}
