//! Calls on mounts. If possible they run in a new mount namespace, inside a new user namespace if
//! needed. A host control then changes nothing on the host, and works for an ordinary user too.

use core::ffi::CStr;

use crate::runtime::Errno;

use crate::call_result::{CallResult, done};
use crate::kernel;

const CLONE_NEWNS: usize = 0x2_0000;
const CLONE_NEWUSER: usize = 0x1000_0000;
const MS_RDONLY: usize = 1;
const MS_NOSUID: usize = 2;
const MS_REMOUNT: usize = 32;
const MS_BIND: usize = 4096;
const MS_REC: usize = 16384;
const MS_PRIVATE: usize = 1 << 18;
const MNT_DETACH: usize = 2;

/// Whether changes to mounts affect only this process.
fn apart() -> bool {
    (kernel!(UNSHARE, CLONE_NEWNS).is_ok() || kernel!(UNSHARE, CLONE_NEWUSER | CLONE_NEWNS).is_ok())
        && kernel!(MOUNT, 0usize, c"/", 0usize, MS_REC | MS_PRIVATE, 0usize).is_ok()
}

/// With the mounts below it, because a user namespace may not reveal what they hide.
fn bind_over_itself(path: &CStr) -> Result<usize, Errno> {
    kernel!(MOUNT, path, path, 0usize, MS_BIND | MS_REC, 0usize)?;
    kernel!(
        MOUNT,
        0usize,
        path,
        0usize,
        MS_BIND | MS_REMOUNT | MS_RDONLY,
        0usize
    )
}

pub fn mount(path: &CStr) -> CallResult {
    let apart = apart();
    kernel!(MOUNT, c"probe", path, c"tmpfs", MS_NOSUID, 0usize)?;
    if !apart {
        kernel!(UMOUNT2, path, MNT_DETACH)?;
    }
    done()
}

/// Makes a read-only mount writable again.
pub fn remount(path: &CStr) -> CallResult {
    if apart() {
        // On the host the path is not a mount yet. In a sandbox it is the mount under attack.
        let _ = bind_over_itself(path);
    }
    kernel!(MOUNT, 0usize, path, 0usize, MS_BIND | MS_REMOUNT, 0usize)?;
    done()
}

/// Unmounts a path, which reveals what the mount hides.
pub fn unmount(path: &CStr) -> CallResult {
    if apart() {
        // As in `remount`.
        let _ = bind_over_itself(path);
    }
    kernel!(UMOUNT2, path, MNT_DETACH)?;
    done()
}

/// Mounts through the newer calls, which a filter written for mount(2) may miss.
pub fn new_mount() -> CallResult {
    // No separate namespace is needed, because the mount is attached nowhere.
    let _ = apart();
    let context = kernel!(FSOPEN, c"tmpfs", 1usize)?;
    kernel!(FSCONFIG, context, 6usize, 0usize, 0usize, 0usize)?;
    kernel!(FSMOUNT, context, 1usize, 0usize)?;
    done()
}
