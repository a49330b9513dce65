//! Writable folders: volumes in memory that split the plan's storage between them.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sandbox_core::{Mechanism, Plan};
use sandbox_host::WORK_FOLDER;
use sandbox_host::disk_split::{SHARED_MEMORY, disk_shares, is_below, writable_folders};

/// The writable folders of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodStorage {
    /// One volume per folder, with its size in bytes.
    folders: Vec<(String, u64)>,
}

impl PodStorage {
    /// Splits the plan's storage evenly between the writable folders. `exports` are the parent
    /// folders of exports.
    pub(crate) fn new(plan: &Plan, exports: &[String]) -> Self {
        let mut exports = exports.to_vec();
        exports.sort();
        let candidates = ["/tmp".to_owned(), WORK_FOLDER.to_owned()];
        // A cluster takes no colon in a path.
        let is_claimed = |folder: &String| {
            let mut targets = plan.volumes.iter().filter_map(|it| it.target.to_str());
            targets.any(|target| is_below(folder, target))
        };
        let candidates = candidates.into_iter().chain(exports);
        let candidates = candidates.filter(|folder| !is_claimed(folder));
        let folders = writable_folders(candidates, &[':']);
        let shares = disk_shares(plan.disk.as_u64(), folders.len());
        let mut folders: Vec<_> = folders
            .into_iter()
            .map(|folder| (folder, shares.each))
            .collect();
        // Without a volume there, a runtime gives it its own size.
        folders.push((SHARED_MEMORY.to_owned(), shares.shared_memory));
        Self { folders }
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = Volume> {
        self.folders
            .iter()
            .enumerate()
            .map(|(index, (_, size))| Volume {
                name: volume(index),
                empty_dir: Some(EmptyDirVolumeSource {
                    medium: Some("Memory".to_owned()),
                    size_limit: Some(Quantity(size.to_string())),
                }),
                ..Volume::default()
            })
    }

    pub(super) fn mounts(&self) -> impl Iterator<Item = VolumeMount> {
        self.folders
            .iter()
            .enumerate()
            .map(|(index, (folder, _))| VolumeMount {
                name: volume(index),
                mount_path: folder.clone(),
                ..VolumeMount::default()
            })
    }

    /// The writable folders.
    pub(crate) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|(folder, _)| folder.into())
    }

    /// Folders to hand over to the code's user. The other volumes belong to root but are
    /// world-writable.
    pub(crate) fn owned_by_code(&self) -> Vec<Vec<u8>> {
        let owned = self.folders.iter().map(|(folder, _)| folder);
        owned
            .filter(|folder| !["/tmp", SHARED_MEMORY].contains(&folder.as_str()))
            .map(|folder| folder.clone().into_bytes())
            .collect()
    }

    /// The storage limits in the enforcement report.
    pub(crate) fn mechanisms(&self) -> [Mechanism; 2] {
        let places = self
            .folders
            .iter()
            .map(|(folder, size)| format!("{folder} {}KiB", size / 1024))
            .collect::<Vec<_>>();
        let places = places.join(", ");
        [
            Mechanism::ReadOnlyRoot,
            Mechanism::StorageInMemoryVolumes(places),
        ]
    }
}

fn volume(index: usize) -> String {
    format!("storage-{index}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::tests::plan;
    use sandbox_core::{ByteSize, CapabilityPolicy, SandboxSpec};

    #[test]
    fn writable_folders_fit_the_storage_limit() {
        let exports = ["/output".to_owned(), "/output/deep".into(), "/usr/x".into()];
        for disk in [ByteSize::mib(1), ByteSize::mib(256), ByteSize::mib(4096)] {
            let mut policy = CapabilityPolicy::new();
            policy.disk = Some(disk);
            let storage = PodStorage::new(&plan(&SandboxSpec::new("sb"), &policy), &exports);
            let folders: Vec<_> = storage
                .folders
                .iter()
                .map(|(folder, _)| folder.as_str())
                .collect();
            assert_eq!(folders, ["/tmp", "/workspace", "/output", "/dev/shm"]);
            let total: u64 = storage.folders.iter().map(|(_, size)| size).sum();
            assert!(
                total <= disk.as_u64() && total * 10 >= disk.as_u64() * 7,
                "{storage:?}"
            );
        }
    }
}
