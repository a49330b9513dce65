//! Splits the plan's disk limit over tmpfs mounts for the writable folders.

use sandbox_core::{ByteSize, Plan};
use sandbox_host::WORK_FOLDER;

use super::tmpfs::{Tmpfs, TmpfsMounts};
use crate::quota::LayerQuota;

/// The engine mounts it itself and takes only its size.
const SHARED_MEMORY: &str = "/dev/shm";

/// Byte limit for `/dev/shm`, besides an eighth of the disk limit: POSIX shared memory is small in
/// practice.
const SHARED_MEMORY_MAX: u64 = 64 << 20;

/// The kernel sizes a tmpfs in pages.
const PAGE: u64 = 4096;

/// Bytes per inode: without an inode limit a tmpfs could be filled with empty files.
const BYTES_PER_INODE: u64 = 4096;

/// Minimum number of inodes of any tmpfs.
const MIN_INODES: u64 = 1024;

/// Folders that a tmpfs would hide with their content: never writable, even if exported.
const SYSTEM_FOLDERS: [&str; 11] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr",
];

/// The writable folders of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageSplit {
    /// Folders with a tmpfs each, and its size in bytes.
    pub tmpfs: Vec<(String, u64)>,
    /// Size of `/dev/shm` in bytes.
    pub shared_memory: u64,
    /// Whether host folders are writable: the disk limit does not cover them.
    pub host_folders: bool,
    /// How the image's files can be written.
    pub root: RootFilesystem,
    /// The plan's disk limit in bytes.
    pub disk: u64,
}

/// How the image's files can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RootFilesystem {
    /// Not at all.
    ReadOnly,
    /// In a layer of the sandbox with at most this many bytes. All but temporary files go there.
    Bounded(u64),
    /// In a layer without a limit, for this reason.
    Unbounded(String),
}

impl StorageSplit {
    /// Splits the disk limit evenly between the writable folders. `export_folders` are the parents
    /// of the export paths. The layer over the image gets a share if `quota` works.
    pub(crate) fn new(plan: &Plan, export_folders: &[String], quota: &LayerQuota) -> Self {
        let writable_workspace = plan
            .workspace
            .as_ref()
            .is_some_and(|folder| !folder.read_only);
        let from_host = |folder: &str| {
            let roots = plan.write_roots.iter().chain(plan.read_roots.iter());
            (plan.workspace.is_some() && is_below(folder, WORK_FOLDER))
                || roots
                    .filter_map(|root| root.to_str())
                    .any(|root| is_below(folder, root))
        };
        let mut wanted = export_folders.to_vec();
        wanted.sort();
        let mut folders: Vec<String> = Vec::new();
        wanted.insert(0, WORK_FOLDER.to_owned());
        wanted.retain(|_| !plan.writable_root);
        wanted.insert(0, "/tmp".to_owned());
        for folder in wanted {
            let covered = folders.iter().any(|covering| is_below(&folder, covering));
            if !covered && !from_host(&folder) && is_mountable(&folder) {
                folders.push(folder);
            }
        }
        let disk = plan.disk.as_u64();
        let shared_memory = (disk / 8).min(SHARED_MEMORY_MAX);
        let count = folders.len() + usize::from(*quota == LayerQuota::Works);
        let share = (disk - shared_memory) / count.max(1) as u64;
        // Whole pages, and at least one: a tmpfs of size 0 is unlimited.
        let share = (share & !(PAGE - 1)).max(PAGE);
        Self {
            tmpfs: folders.into_iter().map(|folder| (folder, share)).collect(),
            shared_memory: (shared_memory & !(PAGE - 1)).max(PAGE),
            host_folders: writable_workspace || !plan.write_roots.is_empty(),
            root: match quota {
                LayerQuota::NotNeeded => RootFilesystem::ReadOnly,
                LayerQuota::Works => RootFilesystem::Bounded(share),
                LayerQuota::Missing(why) => RootFilesystem::Unbounded(why.clone()),
            },
            disk,
        }
    }

    /// The mounts: code owns every folder except `/tmp`.
    pub(crate) fn mounts(&self, code: (u32, u32)) -> TmpfsMounts {
        let mut mounts = TmpfsMounts::default();
        for (folder, size) in &self.tmpfs {
            let (mode, owner) = match folder.as_str() {
                "/tmp" => (0o1777, None),
                _ => (0o755, Some(code)),
            };
            let tmpfs = Tmpfs {
                writable: true,
                executable: true,
                size: *size,
                inodes: (size / BYTES_PER_INODE).max(MIN_INODES),
                mode,
                owner,
            };
            mounts.cover(folder, tmpfs);
        }
        mounts
    }

    /// Total bytes, if more than the disk limit: each folder has at least a page.
    pub(crate) fn excess(&self) -> Option<ByteSize> {
        let total = self.total();
        (total > self.disk).then(|| ByteSize::bytes(total))
    }

    /// Total bytes of all folders.
    fn total(&self) -> u64 {
        let layer = match self.root {
            RootFilesystem::Bounded(size) => size,
            RootFilesystem::ReadOnly | RootFilesystem::Unbounded(_) => 0,
        };
        let tmpfs = self.tmpfs.iter().map(|(_, size)| size).sum::<u64>();
        tmpfs + self.shared_memory + layer
    }

    /// Whether code can write to a folder.
    pub(crate) fn covers(&self, folder: &[u8]) -> bool {
        let Ok(folder) = std::str::from_utf8(folder) else {
            return false;
        };
        self.root != RootFilesystem::ReadOnly
            || self
                .tmpfs
                .iter()
                .any(|(mounted, _)| is_below(folder, mounted))
    }

    /// Describes the split for the enforcement report.
    pub(crate) fn describe(&self) -> String {
        let mut descriptions = self
            .tmpfs
            .iter()
            .map(|(folder, size)| format!("{folder} {}", rounded(*size)))
            .collect::<Vec<_>>();
        descriptions.push(format!("{SHARED_MEMORY} {}", rounded(self.shared_memory)));
        let root = match &self.root {
            RootFilesystem::ReadOnly => "read-only root".to_owned(),
            RootFilesystem::Bounded(size) => {
                let size = rounded(*size);
                format!("root in a layer of its own of {size} by the quota of the engine's storage")
            }
            RootFilesystem::Unbounded(_) => "root in a layer of its own".to_owned(),
        };
        format!(
            "{root}, storage split over tmpfs: {}",
            descriptions.join(", ")
        )
    }
}

fn rounded(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes >= MIB {
        format!("{}MiB", bytes / MIB)
    } else {
        ByteSize::bytes(bytes).to_string()
    }
}

/// Whether `path` is `folder` or inside it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a tmpfs may be mounted there: not over system folders or the root.
pub(crate) fn is_mountable(folder: &str) -> bool {
    // In engine options a comma ends a value, and a colon separates path and options.
    let plain = !folder.contains([',', ':']) && !folder.split('/').any(|part| part == "..");
    plain && folder.len() > 1 && !SYSTEM_FOLDERS.iter().any(|system| is_below(folder, system))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::samples::plan;
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

    #[test]
    fn writable_folders_stay_within_the_disk_limit() {
        let exports = ["/output".to_owned(), "/output/deep".into(), "/data".into()];
        for disk in [
            ByteSize::kib(64),
            ByteSize::mib(1),
            ByteSize::mib(256),
            ByteSize::mib(4096),
        ] {
            let mut policy = CapabilityPolicy::new();
            policy.disk = Some(disk);
            let storage = StorageSplit::new(
                &plan(&SandboxSpec::new("sb"), &policy),
                &exports,
                &LayerQuota::NotNeeded,
            );
            let folders = storage.tmpfs.iter().map(|(folder, _)| folder.as_str());
            assert_eq!(
                folders.collect::<Vec<_>>(),
                ["/tmp", "/workspace", "/data", "/output"]
            );
            assert!(storage.total() <= disk.as_u64(), "{storage:?}");
            assert!(storage.total() * 10 >= disk.as_u64() * 7, "{storage:?}");
        }
    }

    #[test]
    fn share_is_at_least_one_page() {
        for disk in [ByteSize::bytes(4096), ByteSize::kib(8), ByteSize::kib(13)] {
            let mut policy = CapabilityPolicy::new();
            policy.disk = Some(disk);
            let plan = plan(&SandboxSpec::new("sb"), &policy);
            let storage = StorageSplit::new(&plan, &["/output".into()], &LayerQuota::NotNeeded);
            for (folder, size) in &storage.tmpfs {
                assert!(
                    *size >= PAGE && size % PAGE == 0,
                    "{folder} has {size} of {disk}"
                );
            }
            let least = ByteSize::bytes(4 * PAGE);
            assert_eq!(storage.excess(), Some(least), "{disk}");
        }
    }

    #[test]
    fn host_workspace_gets_no_tmpfs() {
        let spec = SandboxSpec::new("sb").workspace(Workspace::read_write("/home/me/work"));
        let plan = plan(&spec, &CapabilityPolicy::new());
        let storage = StorageSplit::new(&plan, &["/workspace/out".into()], &LayerQuota::NotNeeded);
        assert_eq!(storage.tmpfs.len(), 1);
        assert!(storage.host_folders);
    }

    #[test]
    fn writable_root_has_a_tmpfs_only_for_temporary_files() {
        let spec = SandboxSpec::new("sb").writable_root(true);
        let plan = plan(&spec, &CapabilityPolicy::new());
        let none = LayerQuota::Missing("no quota".into());
        let storage = StorageSplit::new(&plan, &["/output".into()], &none);
        let folders = storage.tmpfs.iter().map(|(folder, _)| folder.as_str());
        assert_eq!(folders.collect::<Vec<_>>(), ["/tmp"]);
        assert!(storage.covers(b"/output"));
    }

    #[test]
    fn layer_with_quota_gets_an_equal_share() {
        let spec = SandboxSpec::new("sb").writable_root(true);
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(64));
        let plan = plan(&spec, &policy);
        let storage = StorageSplit::new(&plan, &[], &LayerQuota::Works);
        let RootFilesystem::Bounded(layer) = storage.root else {
            panic!("no share: {storage:?}");
        };
        assert_eq!(storage.tmpfs, [("/tmp".to_owned(), layer)]);
        assert_eq!(storage.total(), ByteSize::mib(64).as_u64());
        let text = storage.describe();
        assert!(text.contains("layer of its own of 28MiB"), "{text}");
    }

    #[test]
    fn system_folders_are_never_hidden() {
        for folder in [
            "/",
            "/usr",
            "/usr/share/x",
            "/etc",
            "/proc/self",
            "/a,b",
            "/a:b",
        ] {
            assert!(!is_mountable(folder), "{folder}");
        }
        for folder in ["/output", "/var/results", "/user", "/liberty"] {
            assert!(is_mountable(folder), "{folder}");
        }
    }
}
