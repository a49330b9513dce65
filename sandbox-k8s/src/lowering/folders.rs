//! Folders on the node's disk: those of packages, which code cannot write to, and those that an
//! installer writes to.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The name of the init container that fills folders.
pub(crate) const FILL_CONTAINER: &str = "packages";

/// A folder of a pod in a volume of its own. It is not in memory, which packages would fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodFolder {
    /// Its absolute path in the pod.
    pub target: String,
    /// The most bytes on the node's disk.
    pub size: u64,
    /// The folder of this host that it is a copy of. Only an init container, which has ended before
    /// the agent of code starts, can write there. Without one, the folder is code's to write.
    pub source: Option<PathBuf>,
}

pub(super) fn volumes(folders: &[PodFolder]) -> impl Iterator<Item = Volume> {
    folders.iter().enumerate().map(|(index, folder)| Volume {
        name: name(index),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: None,
            size_limit: Some(Quantity(folder.size.to_string())),
        }),
        ..Volume::default()
    })
}

/// The mounts for code.
pub(super) fn mounts(folders: &[PodFolder]) -> impl Iterator<Item = VolumeMount> {
    folders
        .iter()
        .enumerate()
        .map(|(index, folder)| VolumeMount {
            name: name(index),
            mount_path: folder.target.clone(),
            // A server leaves out what is false.
            read_only: folder.source.is_some().then_some(true),
            ..VolumeMount::default()
        })
}

/// Whether folders are filled before code runs.
pub(crate) fn are_filled(folders: &[PodFolder]) -> bool {
    folders.iter().any(|folder| folder.source.is_some())
}

/// The init container that fills folders: as the `main` one, but it can write there, and with
/// another command.
pub(super) fn fill(main: &Container, command: Vec<String>, folders: &[PodFolder]) -> Container {
    let mut step = main.clone();
    FILL_CONTAINER.clone_into(&mut step.name);
    step.command = Some(command);
    for mount in step.volume_mounts.iter_mut().flatten() {
        if folders
            .iter()
            .any(|folder| folder.target == mount.mount_path)
        {
            mount.read_only = None;
        }
    }
    step
}

/// The bytes on the node's disk of all folders.
pub(super) fn size(folders: &[PodFolder]) -> u64 {
    folders.iter().map(|folder| folder.size).sum()
}

fn name(index: usize) -> String {
    format!("folder-{index}")
}
