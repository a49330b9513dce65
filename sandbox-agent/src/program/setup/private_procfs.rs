//! A procfs for the agent alone.

use crate::runtime::{
    Errno, Fd,
    fs::{O_CLOEXEC, O_DIRECTORY, O_RDONLY, open_at},
    mount::{MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID},
    syscall::{check, nr, result, syscall2, syscall3, syscall5},
};

use crate::program::procfs::Procfs;

/// Mounts a detached procfs of the agent's PID namespace. Supervisors find processes in it even if
/// the sandbox shows no /proc. `None` before Linux 5.2, or if the host's procfs is partly covered.
pub(super) fn mount_detached() -> Option<Procfs> {
    // On any error, the sandbox's own /proc is used.
    detached_procfs().and_then(Procfs::new).ok()
}

fn detached_procfs() -> Result<Fd, Errno> {
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
    // The descriptor of `fsmount` is an `O_PATH` one, which cannot be listed.
    open_at(&mounted, c".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
}
