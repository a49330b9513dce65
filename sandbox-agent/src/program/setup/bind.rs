//! Mounting the host's files in the new root.

use alloc::{ffi::CString, vec::Vec};

use crate::runtime::{
    Errno, Fd, fs,
    fs::{AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW},
    mount::{
        MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY, MOVE_MOUNT_F_EMPTY_PATH,
        MOVE_MOUNT_T_EMPTY_PATH, MountAttributes, OPEN_TREE_CLOEXEC, OPEN_TREE_CLONE, move_mount,
        open_tree, set_attributes,
    },
    path::terminated,
    stat::{Stat, stat_at, stat_of},
};

use super::{
    classic,
    mount_point::{self, MountPoint},
};
use crate::{program::failures::is_object, protocol::HostObject};

/// Restrictions of a mount of the host's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MountRestriction {
    pub(super) read_only: bool,
    pub(super) devices: bool,
}

/// Files of the host, opened while the host's root was still the root.
#[derive(Debug)]
pub(super) enum BindSource {
    /// A detached copy of the mount, with all submounts, already restricted.
    Tree(Fd),
    /// Without the newer calls: the path, to be resolved in the old root, and the object that it
    /// must lead to.
    Path(CString, Option<HostObject>),
    /// An optional source that does not exist.
    Missing,
}

/// Opens the host's `path`.
///
/// # Errors
///
/// `ENOENT` unless it is `optional`, [`REPLACED`] if it is not `object`, and errors of the kernel.
pub(super) fn take(
    path: &[u8],
    restriction: MountRestriction,
    optional: bool,
    object: Option<HostObject>,
) -> Result<BindSource, Errno> {
    let point = terminated(path)?;
    let recursive = AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive.cast_unsigned();
    match open_tree(AT_FDCWD, &point, flags) {
        Ok(tree) => {
            // Checks the copy, which is what will be mounted, whatever the path leads to now.
            check(&stat_of(&tree)?, object)?;
            match restrict(&tree, restriction) {
                Ok(()) => Ok(BindSource::Tree(tree)),
                // Linux 5.2 to 5.11 can copy a mount, but not restrict all submounts of the copy.
                Err(Errno::ENOSYS) => Ok(BindSource::Path(point, object)),
                Err(errno) => Err(errno),
            }
        }
        Err(Errno::ENOENT | Errno::ENOTDIR) if optional => Ok(BindSource::Missing),
        // Before Linux 5.2, or denied by the engine's seccomp profile.
        Err(Errno::ENOSYS | Errno::EPERM) => match stat_at(AT_FDCWD, &point, AT_SYMLINK_NOFOLLOW) {
            Ok(metadata) => {
                check(&metadata, object)?;
                Ok(BindSource::Path(point, object))
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) if optional => Ok(BindSource::Missing),
            Err(errno) => Err(errno),
        },
        Err(errno) => Err(errno),
    }
}

/// The error for a path that leads to another object than the client checked.
pub(super) const REPLACED: Errno = Errno::ESTALE;

/// Checks that a file is the expected object.
///
/// # Errors
///
/// [`REPLACED`].
pub(super) fn check(metadata: &Stat, object: Option<HostObject>) -> Result<(), Errno> {
    match object {
        Some(object) if !is_object(metadata, object) => Err(REPLACED),
        _ => Ok(()),
    }
}

fn restrict(tree: &Fd, restriction: MountRestriction) -> Result<(), Errno> {
    // Flags are only added: inside a user namespace, those of the host's mounts are locked.
    let mut set = MOUNT_ATTR_NOSUID;
    if restriction.read_only {
        set |= MOUNT_ATTR_RDONLY;
    }
    if !restriction.devices {
        set |= MOUNT_ATTR_NODEV;
    }
    let attributes = MountAttributes {
        set,
        ..MountAttributes::default()
    };
    set_attributes(
        tree,
        c"",
        (AT_EMPTY_PATH | AT_RECURSIVE).cast_unsigned(),
        &attributes,
    )
}

/// Mounts a source at `target` in the new root. `old_root` is the old root, and the working
/// directory.
///
/// # Errors
///
/// Errors of the kernel.
pub(super) fn attach(
    source: BindSource,
    target: &[u8],
    restriction: MountRestriction,
    old_root: &Fd,
) -> Result<(), Errno> {
    match source {
        BindSource::Missing => Ok(()),
        BindSource::Tree(tree) => {
            let point = mount_point::create_if_missing(target, stat_of(&tree)?.is_directory())?;
            attach_tree(&tree, &point)
        }
        BindSource::Path(path, object) => {
            let relative = relative(&path)?;
            let folder = stat_at(old_root, &relative, AT_SYMLINK_NOFOLLOW)?.is_directory();
            let point = mount_point::create_if_missing(target, folder)?;
            classic::bind(&relative, &point.path, restriction, old_root)?;
            // Checks what was mounted: the path may have changed meanwhile.
            check(
                &stat_at(AT_FDCWD, &point.path, AT_SYMLINK_NOFOLLOW)?,
                object,
            )
        }
    }
}

/// Mounts a detached tree on an existing mount point.
///
/// # Errors
///
/// What `move_mount` reports.
pub(super) fn attach_tree(tree: &Fd, point: &MountPoint) -> Result<(), Errno> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, &point.object, c"", flags)
}

/// Makes a folder of the new root a mount point, with its submounts.
///
/// # Errors
///
/// Errors of the kernel.
pub(super) fn pin(point: &MountPoint) -> Result<(), Errno> {
    let recursive = (AT_EMPTY_PATH | AT_RECURSIVE).cast_unsigned();
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive;
    match open_tree(&point.object, c"", flags) {
        Ok(tree) => attach_tree(&tree, point),
        Err(Errno::ENOSYS | Errno::EPERM) => classic::pin(&point.path),
        Err(errno) => Err(errno),
    }
}

/// The path relative to the old root, which is the working directory.
fn relative(path: &CString) -> Result<CString, Errno> {
    let bytes = path.to_bytes();
    let start = bytes
        .iter()
        .position(|byte| *byte != b'/')
        .unwrap_or(bytes.len());
    terminated(if start == bytes.len() {
        Vec::from(*b".")
    } else {
        Vec::from(&bytes[start..])
    })
}

/// Mounts a file or folder of the new root, without submounts, at another mount point.
///
/// # Errors
///
/// Errors of the kernel.
pub(super) fn mirror(from: &CString, point: &MountPoint, attributes: u64) -> Result<(), Errno> {
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW.cast_unsigned();
    match open_tree(AT_FDCWD, from, flags) {
        Ok(tree) => {
            let set = MountAttributes {
                set: attributes,
                ..MountAttributes::default()
            };
            match set_attributes(&tree, c"", AT_EMPTY_PATH.cast_unsigned(), &set) {
                Err(Errno::ENOSYS) => classic::bind_single(from, &point.path, attributes),
                other => other.and_then(|()| attach_tree(&tree, point)),
            }
        }
        Err(Errno::ENOSYS | Errno::EPERM) => classic::bind_single(from, &point.path, attributes),
        Err(errno) => Err(errno),
    }
}

/// Makes the old root the working directory, so that relative paths are the host's.
///
/// # Errors
///
/// What `fchdir` reports.
pub(super) fn enter_old_root(old_root: &Fd) -> Result<(), Errno> {
    fs::change_directory_to(old_root)
}
