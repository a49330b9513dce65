//! Which paths Landlock grants, as they are inside of the sandbox.

use std::path::{Path, PathBuf};

use sandbox_core::Plan;

use super::{Isolation, PLATFORM_ETC, PLATFORM_READ_ROOTS};

/// Device files that every program may use.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Terminals: the sandbox's own, where it has a `/dev/pts` of its own. The host's would be those of the user's other sessions.
const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts", "/dev/tty"];

/// What code on the host's own `/proc` may read: about the machine, nothing of processes. A rule for `/proc/self` would be one
/// for the process that made the rules, so that a program cannot read there about itself either.
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

/// Folders of the sandbox's own that can always be written.
const SCRATCH: &[&str] = &["/tmp", "/dev/shm", "/dev/mqueue"];

const WORKSPACE: &str = "/workspace";

/// Lists of paths by what may be done at and below them. Missing paths grant nothing and are passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// Files are read and executed, folders listed.
    pub read: Vec<PathBuf>,
    /// Folders are listed, and nothing more.
    pub list: Vec<PathBuf>,
    /// Everything but making device files.
    pub write: Vec<PathBuf>,
    /// Device files are read, written and controlled.
    pub devices: Vec<PathBuf>,
}

impl Paths {
    /// The paths of a plan in a place of this kind, where the backend has put things where the design says: the workspace at
    /// `/workspace`, roots at their own paths, scratch space at `/tmp` and `/dev/shm`.
    ///
    /// - [`Isolation::Namespaces`]: the platform's read roots and the plan's, `/proc`, the workspace; writable are the
    ///   scratch folders, the write roots, a workspace that is not read-only and the folders of exported files. Every folder
    ///   can be listed, since the root holds nothing else.
    /// - [`Isolation::Container`]: the same, but the whole image can be read.
    /// - [`Isolation::Host`]: the same read roots, the workspace at its own path, and the few files of `/proc` that tell nothing
    ///   of processes. No terminal and no scratch folder: the backend makes private folders and adds them.
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

/// The folders in which files appear that these patterns name, sorted, each once, without those that lie in another.
///
/// The part of a pattern before its first wildcard decides: `/output/*.csv` and `/output/report.json` stand for `/output`. A
/// name right below the root (`/output`) stands for itself. A wildcard right below the root (`/*.csv`) stands for nothing: the
/// root is no place to write.
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
    const WILDCARDS: [char; 5] = ['*', '?', '[', '{', '\\'];
    let root = Path::new("/");
    let folder = match pattern.find(WILDCARDS) {
        Some(wildcard) => Path::new(&pattern[..=pattern[..wildcard].rfind('/')?]).to_path_buf(),
        None => match Path::new(pattern).parent()? {
            parent if parent == root => Path::new(pattern).to_path_buf(),
            parent => parent.to_path_buf(),
        },
    };
    // Without a trailing separator, so that equal folders are equal.
    let folder = folder.components().collect::<PathBuf>();
    (folder != root).then_some(folder)
}
