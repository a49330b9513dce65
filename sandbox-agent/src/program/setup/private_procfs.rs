//! A procfs for the agent alone.

use crate::runtime::{
    Fd, Result,
    fs::{O_CLOEXEC, O_DIRECTORY, O_RDONLY, open_at},
    mount::{MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID},
    syscall::{check, nr, result, syscall2, syscall3, syscall5},
};

use crate::program::procfs::Procfs;

/// A procfs of the agent's process namespace that is mounted nowhere: supervisors find processes in it whether or not the
/// sandbox shows one. `None` before Linux 5.2, or where the host's own procfs is covered in part.
pub(super) fn mount_detached() -> Option<Procfs> {
    // Each reason for a failure leads to the same: what the sandbox shows on /proc is all there is.
    detached_procfs().and_then(Procfs::new).ok()
}

fn detached_procfs() -> Result<Fd> {
    const FSOPEN_CLOEXEC: usize = 1;
    const FSMOUNT_CLOEXEC: usize = 1;
    const FSCONFIG_CMD_CREATE: usize = 6;
    let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    // SAFETY: the kernel reads the string.
    let context =
        result(unsafe { syscall2(nr::FSOPEN, c"proc".as_ptr() as usize, FSOPEN_CLOEXEC) })?;
    let context = Fd::from_raw(context as i32);
    let raw = context.as_raw() as usize;
    // SAFETY: the command takes neither key nor value.
    check(unsafe { syscall5(nr::FSCONFIG, raw, FSCONFIG_CMD_CREATE, 0, 0, 0) })?;
    // SAFETY: no pointer is passed.
    let mounted =
        result(unsafe { syscall3(nr::FSMOUNT, raw, FSMOUNT_CLOEXEC, attributes as usize) })?;
    let mounted = Fd::from_raw(mounted as i32);
    // What `fsmount` gives can only be looked up in, not read.
    open_at(&mounted, c".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
}
