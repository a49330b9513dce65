//! Splits the plan's disk limit over tmpfs mounts for the writable folders.

use sandbox_core::{ByteSize, Mechanism, Plan};
use sandbox_host::WORK_FOLDER;
use sandbox_host::disk_split::{self, SHARED_MEMORY, is_below};

use super::tmpfs::{Tmpfs, TmpfsMounts};
use crate::quota::LayerQuota;

/// Bytes per inode: without an inode limit a tmpfs could be filled with empty files.
const BYTES_PER_INODE: u64 = 4096;

/// Minimum number of inodes of any tmpfs.
const MIN_INODES: u64 = 1024;

/// In engine options a comma ends a value, and a colon separates path and options.
const OPTION_SEPARATORS: [char; 2] = [',', ':'];

/// The writable folders of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageSplit {
    /// Folders with a tmpfs each, and its size in bytes.
    pub tmpfs: Vec<(String, u64)>,
    /// Size of `/dev/shm` in bytes.
    pub shared_memory: u64,
    /// Whether host folders or volumes are writable: the disk limit does not cover them.
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
        let from_host = |folder: &str| {
            let roots = plan.write_roots.iter().chain(plan.read_roots.iter());
            let roots = roots.chain(plan.mounts.iter().map(|mount| &mount.target));
            let roots = roots.chain(plan.volumes.iter().map(|volume| &volume.target));
            (plan.workspace.is_some() && is_below(folder, WORK_FOLDER))
                || roots
                    .filter_map(|root| root.to_str())
                    .any(|root| is_below(folder, root))
        };
        let mut exports = export_folders.to_vec();
        exports.sort();
        let workspace = (!plan.writable_root).then(|| WORK_FOLDER.to_owned());
        let exports = exports.into_iter().filter(|_| !plan.writable_root);
        let candidates = std::iter::once("/tmp".to_owned())
            .chain(workspace)
            .chain(exports)
            .filter(|folder| !from_host(folder));
        let folders = disk_split::writable_folders(candidates, &OPTION_SEPARATORS);
        let disk = plan.disk.as_u64();
        let parts = folders.len() + usize::from(*quota == LayerQuota::Works);
        let shares = disk_split::disk_shares(disk, parts);
        Self {
            tmpfs: folders
                .into_iter()
                .map(|folder| (folder, shares.each))
                .collect(),
            shared_memory: shares.shared_memory,
            host_folders: plan.writable_sources().next().is_some()
                || plan.volumes.iter().any(|volume| !volume.read_only),
            root: match quota {
                LayerQuota::NotNeeded => RootFilesystem::ReadOnly,
                LayerQuota::Works => RootFilesystem::Bounded(shares.each),
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

    /// The split in the enforcement report.
    pub(crate) fn mechanisms(&self) -> [Mechanism; 2] {
        let mut folders = self
            .tmpfs
            .iter()
            .map(|(folder, size)| format!("{folder} {}", rounded(*size)))
            .collect::<Vec<_>>();
        folders.push(format!("{SHARED_MEMORY} {}", rounded(self.shared_memory)));
        let root = match &self.root {
            RootFilesystem::ReadOnly => Mechanism::ReadOnlyRoot,
            RootFilesystem::Bounded(size) => Mechanism::BoundedRootLayer(rounded(*size)),
            RootFilesystem::Unbounded(_) => Mechanism::OwnRootLayer,
        };
        [root, Mechanism::StorageInTmpfs(folders.join(", "))]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::samples::plan;
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};
    use sandbox_host::disk_split::PAGE;

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
        let root = &storage.mechanisms()[0];
        assert_eq!(*root, Mechanism::BoundedRootLayer("28MiB".into()));
    }
}
