//! Tries on mounts. Where a mount namespace of its own can be had, be it through a user namespace, everything happens in it:
//! a host control changes nothing of the host, and an ordinary user has the same way in as root.

use core::ffi::CStr;

use crate::runtime::Result;

use crate::kernel;
use crate::said::{Said, done};

const CLONE_NEWNS: usize = 0x2_0000;
const CLONE_NEWUSER: usize = 0x1000_0000;
const MS_RDONLY: usize = 1;
const MS_NOSUID: usize = 2;
const MS_REMOUNT: usize = 32;
const MS_BIND: usize = 4096;
const MS_REC: usize = 16384;
const MS_PRIVATE: usize = 1 << 18;
const MNT_DETACH: usize = 2;

/// Whether changes to mounts stay with this process.
fn apart() -> bool {
    (kernel!(UNSHARE, CLONE_NEWNS).is_ok() || kernel!(UNSHARE, CLONE_NEWUSER | CLONE_NEWNS).is_ok())
        && kernel!(MOUNT, 0usize, c"/", 0usize, MS_REC | MS_PRIVATE, 0usize).is_ok()
}

/// With the mounts below it: a user namespace may not show what they hide.
fn bind_over_itself(path: &CStr) -> Result<usize> {
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

pub fn mount(path: &CStr) -> Said {
    let apart = apart();
    kernel!(MOUNT, c"probe", path, c"tmpfs", MS_NOSUID, 0usize)?;
    if !apart {
        kernel!(UMOUNT2, path, MNT_DETACH)?;
    }
    done()
}

/// Makes a read-only mount writable again.
pub fn remount(path: &CStr) -> Said {
    if apart() {
        // On the host the path is no mount yet; in a sandbox it is the one that we are after.
        let _ = bind_over_itself(path);
    }
    kernel!(MOUNT, 0usize, path, 0usize, MS_BIND | MS_REMOUNT, 0usize)?;
    done()
}

/// Takes a mount away, so that what it hides appears.
pub fn unmount(path: &CStr) -> Said {
    if apart() {
        // As in `remount`.
        let _ = bind_over_itself(path);
    }
    kernel!(UMOUNT2, path, MNT_DETACH)?;
    done()
}

/// The same through the calls that a filter written for mount(2) forgets.
pub fn new_mount() -> Said {
    // Whether or not this is apart: nothing is attached anywhere.
    let _ = apart();
    let context = kernel!(FSOPEN, c"tmpfs", 1usize)?;
    kernel!(FSCONFIG, context, 6usize, 0usize, 0usize, 0usize)?;
    kernel!(FSMOUNT, context, 1usize, 0usize)?;
    done()
}
