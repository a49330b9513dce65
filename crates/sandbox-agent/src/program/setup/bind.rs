//! The host's files in the new root.

use alloc::{ffi::CString, vec::Vec};

use sandbox_freestanding::{
    Errno, Fd, Result, fs,
    fs::{AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW},
    mount::{
        MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY, MOVE_MOUNT_F_EMPTY_PATH,
        MountAttributes, OPEN_TREE_CLOEXEC, OPEN_TREE_CLONE, move_mount, open_tree, set_attributes,
    },
    path::terminated,
    stat::{stat_at, stat_of},
};

use super::{classic, place};

/// What restricts a mount of the host's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Restriction {
    pub(super) read_only: bool,
    pub(super) devices: bool,
}

/// Files of the host, taken while the host's root was still the root.
#[derive(Debug)]
pub(super) enum Source {
    /// A detached copy of the mount, with all below it, restricted already.
    Tree(Fd),
    /// Without the newer calls: the path, to be resolved in the old root.
    Path(CString),
    /// An optional source that is not there.
    Missing,
}

/// Takes the host's `path`.
///
/// # Errors
///
/// `ENOENT` unless it is `optional`, and what the kernel refuses.
pub(super) fn take(path: &[u8], restriction: Restriction, optional: bool) -> Result<Source> {
    let place = terminated(path)?;
    let recursive = AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive.cast_unsigned();
    match open_tree(AT_FDCWD, &place, flags) {
        Ok(tree) => match restrict(&tree, restriction) {
            Ok(()) => Ok(Source::Tree(tree)),
            // Linux 5.2 to 5.11 can copy, and not restrict all of the copy.
            Err(Errno::ENOSYS) => Ok(Source::Path(place)),
            Err(errno) => Err(errno),
        },
        Err(Errno::ENOENT | Errno::ENOTDIR) if optional => Ok(Source::Missing),
        // Before Linux 5.2, or denied by an engine's seccomp profile that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => match stat_at(AT_FDCWD, &place, AT_SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(Source::Path(place)),
            Err(Errno::ENOENT | Errno::ENOTDIR) if optional => Ok(Source::Missing),
            Err(errno) => Err(errno),
        },
        Err(errno) => Err(errno),
    }
}

fn restrict(tree: &Fd, restriction: Restriction) -> Result<()> {
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
    source: Source,
    target: &[u8],
    restriction: Restriction,
    old: &Fd,
) -> Result<()> {
    match source {
        Source::Missing => Ok(()),
        Source::Tree(tree) => {
            let place = place::mount_point(target, stat_of(&tree)?.is_directory())?;
            attach_tree(&tree, &place)
        }
        Source::Path(path) => {
            let relative = relative(&path)?;
            let folder = stat_at(old, &relative, AT_SYMLINK_NOFOLLOW)?.is_directory();
            let place = place::mount_point(target, folder)?;
            classic::bind(&relative, &place, restriction, old)
        }
    }
}

/// Mounts a detached tree on a place that exists.
///
/// # Errors
///
/// What `move_mount` reports.
pub(super) fn attach_tree(tree: &Fd, place: &CString) -> Result<()> {
    move_mount(tree, AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH)
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
pub(super) fn mirror(from: &CString, place: &CString, attributes: u64) -> Result<()> {
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW.cast_unsigned();
    match open_tree(AT_FDCWD, from, flags) {
        Ok(tree) => {
            let set = MountAttributes {
                set: attributes,
                ..MountAttributes::default()
            };
            match set_attributes(&tree, c"", AT_EMPTY_PATH.cast_unsigned(), &set) {
                Err(Errno::ENOSYS) => classic::bind_one(from, place, attributes),
                other => other.and_then(|()| attach_tree(&tree, place)),
            }
        }
        Err(Errno::ENOSYS | Errno::EPERM) => classic::bind_one(from, place, attributes),
        Err(errno) => Err(errno),
    }
}

/// Stands in the old root, so that paths without a slash are the host's.
///
/// # Errors
///
/// What `fchdir` reports.
pub(super) fn stand_in(old: &Fd) -> Result<()> {
    fs::change_directory_to(old)
}
