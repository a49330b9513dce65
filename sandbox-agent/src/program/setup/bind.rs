//! The host's files in the new root.

use alloc::{ffi::CString, vec::Vec};

use crate::runtime::{
    Errno, Fd, Result, fs,
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
use crate::{program::failures::is_object, protocol::Object};

/// What restricts a mount of the host's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MountRestriction {
    pub(super) read_only: bool,
    pub(super) devices: bool,
}

/// Files of the host, taken while the host's root was still the root.
#[derive(Debug)]
pub(super) enum BindSource {
    /// A detached copy of the mount, with all below it, restricted already.
    Tree(Fd),
    /// Without the newer calls: the path, to be resolved in the old root, and what it must lead to.
    Path(CString, Option<Object>),
    /// An optional source that is not there.
    Missing,
}

/// Takes the host's `path`.
///
/// # Errors
///
/// `ENOENT` unless it is `optional`, [`REPLACED`] where it is not `object`, and what the kernel refuses.
pub(super) fn take(
    path: &[u8],
    restriction: MountRestriction,
    optional: bool,
    object: Option<Object>,
) -> Result<BindSource> {
    let point = terminated(path)?;
    let recursive = AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive.cast_unsigned();
    match open_tree(AT_FDCWD, &point, flags) {
        Ok(tree) => {
            // Of the copy itself: whatever the path leads to by now, this is what is mounted.
            check(&stat_of(&tree)?, object)?;
            match restrict(&tree, restriction) {
                Ok(()) => Ok(BindSource::Tree(tree)),
                // Linux 5.2 to 5.11 can copy, and not restrict all of the copy.
                Err(Errno::ENOSYS) => Ok(BindSource::Path(point, object)),
                Err(errno) => Err(errno),
            }
        }
        Err(Errno::ENOENT | Errno::ENOTDIR) if optional => Ok(BindSource::Missing),
        // Before Linux 5.2, or denied by an engine's seccomp profile that does not know the call.
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

/// The error number of a path that leads to another object than the host has checked.
pub(super) const REPLACED: Errno = Errno::ESTALE;

/// Holds what was found to what it must be.
///
/// # Errors
///
/// [`REPLACED`].
pub(super) fn check(metadata: &Stat, object: Option<Object>) -> Result<()> {
    match object {
        Some(object) if !is_object(metadata, object) => Err(REPLACED),
        _ => Ok(()),
    }
}

fn restrict(tree: &Fd, restriction: MountRestriction) -> Result<()> {
    // Flags are only added: inside of a user namespace those of the host's mounts are locked.
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

/// Mounts what was taken at `target` of the new root. `old` is the old root, and the current folder.
///
/// # Errors
///
/// What the kernel refuses.
pub(super) fn attach(
    source: BindSource,
    target: &[u8],
    restriction: MountRestriction,
    old_root: &Fd,
) -> Result<()> {
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
            // What was mounted, wherever the path led in that moment.
            check(
                &stat_at(AT_FDCWD, &point.path, AT_SYMLINK_NOFOLLOW)?,
                object,
            )
        }
    }
}

/// Mounts a detached tree on a place that exists.
///
/// # Errors
///
/// What `move_mount` reports.
pub(super) fn attach_tree(tree: &Fd, point: &MountPoint) -> Result<()> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, &point.object, c"", flags)
}

/// Makes a folder of the new root a mount point, with what is mounted below it.
///
/// # Errors
///
/// What the kernel refuses.
pub(super) fn pin(point: &MountPoint) -> Result<()> {
    let recursive = (AT_EMPTY_PATH | AT_RECURSIVE).cast_unsigned();
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive;
    match open_tree(&point.object, c"", flags) {
        Ok(tree) => attach_tree(&tree, point),
        Err(Errno::ENOSYS | Errno::EPERM) => classic::pin(&point.path),
        Err(errno) => Err(errno),
    }
}

/// The same path as seen from a root that is the current folder.
fn relative(path: &CString) -> Result<CString> {
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

/// Mounts a copy of a file or folder of the new root, alone, on another place of it.
///
/// # Errors
///
/// What the kernel refuses.
pub(super) fn mirror(from: &CString, point: &MountPoint, attributes: u64) -> Result<()> {
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

/// Stands in the old root, so that paths without a slash are the host's.
///
/// # Errors
///
/// What `fchdir` reports.
pub(super) fn enter_old_root(old_root: &Fd) -> Result<()> {
    fs::change_directory_to(old_root)
}
