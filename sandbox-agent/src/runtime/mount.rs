//! Mounts.

use core::ffi::CStr;

use crate::runtime::descriptor::{Descriptor, Fd, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, result, syscall2, syscall3, syscall5};

/// Mount flag: read-only.
pub const MS_RDONLY: u64 = 1;
/// Mount flag: ignore set-user-ID bits.
pub const MS_NOSUID: u64 = 2;
/// Mount flag: no devices.
pub const MS_NODEV: u64 = 4;
/// Mount flag: no execution of programs.
pub const MS_NOEXEC: u64 = 8;
/// Mount flag: change the flags of a mount.
pub const MS_REMOUNT: u64 = 32;
/// Mount flag: bind mount.
pub const MS_BIND: u64 = 4096;
/// Mount flag: with all submounts.
pub const MS_REC: u64 = 16384;
/// Mount flag: no propagation.
pub const MS_PRIVATE: u64 = 1 << 18;
/// Mount flag: receive propagation only.
pub const MS_SLAVE: u64 = 1 << 19;

/// `umount2` flag: detach now, unmount when unused.
pub const MNT_DETACH: i32 = 2;

/// `open_tree` flag: create a detached copy.
pub const OPEN_TREE_CLONE: u32 = 1;
/// `open_tree` flag: close on exec.
pub const OPEN_TREE_CLOEXEC: u32 = 0o2_000_000;
/// `move_mount` flag: the source is the descriptor itself.
pub const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
/// `move_mount` flag: the target is the descriptor itself.
pub const MOVE_MOUNT_T_EMPTY_PATH: u32 = 0x40;

/// Mount attribute: read-only.
pub const MOUNT_ATTR_RDONLY: u64 = 1;
/// Mount attribute: ignore set-user-ID bits.
pub const MOUNT_ATTR_NOSUID: u64 = 2;
/// Mount attribute: no devices.
pub const MOUNT_ATTR_NODEV: u64 = 4;
/// Mount attribute: no execution of programs.
pub const MOUNT_ATTR_NOEXEC: u64 = 8;
/// Mount attribute: ID-mapped.
pub const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// The changes of `mount_setattr`: `struct mount_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct MountAttributes {
    /// Attributes to set.
    pub set: u64,
    /// Attributes to clear.
    pub clear: u64,
    /// Propagation, as `MS_*`.
    pub propagation: u64,
    /// Descriptor of the user namespace of the ID mapping.
    pub user_namespace: u64,
}

fn pointer(text: Option<&CStr>) -> usize {
    text.map_or(0, |text| text.as_ptr() as usize)
}

/// `mount`.
///
/// # Errors
/// What `mount` reports.
pub fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: u64,
    options: Option<&CStr>,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads the strings.
    check(unsafe {
        syscall5(
            nr::MOUNT,
            pointer(source),
            target.as_ptr() as usize,
            pointer(kind),
            flags as usize,
            pointer(options),
        )
    })
}

/// Removes the topmost mount at `target`.
///
/// # Errors
/// `EINVAL` when nothing is mounted there or the mount is locked, `EPERM`, `EBUSY`.
pub fn unmount(target: &CStr, flags: i32) -> Result<(), Errno> {
    // SAFETY: the kernel reads the string.
    check(unsafe { syscall2(nr::UMOUNT2, target.as_ptr() as usize, flags as usize) })
}

/// Makes `root` the root of the mount namespace and moves the old one to `old`.
///
/// # Errors
/// `EINVAL`, `EBUSY`, `EPERM`.
pub fn pivot_root(root: &CStr, old: &CStr) -> Result<(), Errno> {
    // SAFETY: the kernel reads the strings.
    check(unsafe {
        syscall2(
            nr::PIVOT_ROOT,
            root.as_ptr() as usize,
            old.as_ptr() as usize,
        )
    })
}

/// Opens a mount, or with [`OPEN_TREE_CLONE`] makes a detached copy of it.
///
/// # Errors
/// `ENOENT`, `EPERM`; `ENOSYS` before Linux 5.2.
pub fn open_tree(folder: impl Descriptor, path: &CStr, flags: u32) -> Result<Fd, Errno> {
    // SAFETY: the kernel reads the string.
    result(unsafe {
        syscall3(
            nr::OPEN_TREE,
            word(folder),
            path.as_ptr() as usize,
            flags as usize,
        )
    })
    .map(|raw| Fd::from_raw(raw as i32))
}

/// Attaches the mount `from` at `path` below `to`.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `EPERM`, `EINVAL`.
pub fn move_mount(
    from: impl Descriptor,
    to: impl Descriptor,
    path: &CStr,
    flags: u32,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads the strings.
    check(unsafe {
        syscall5(
            nr::MOVE_MOUNT,
            word(from),
            c"".as_ptr() as usize,
            word(to),
            path.as_ptr() as usize,
            flags as usize,
        )
    })
}

/// Changes the attributes of a mount; `flags` are `AT_EMPTY_PATH` and `AT_RECURSIVE`.
///
/// # Errors
/// `EPERM` for a locked attribute; `ENOSYS` before Linux 5.12.
pub fn set_attributes(
    folder: impl Descriptor,
    path: &CStr,
    flags: u32,
    attributes: &MountAttributes,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads the string and the record, whose size is stated.
    check(unsafe {
        syscall5(
            nr::MOUNT_SETATTR,
            word(folder),
            path.as_ptr() as usize,
            flags as usize,
            core::ptr::from_ref(attributes) as usize,
            size_of::<MountAttributes>(),
        )
    })
}
