//! Namespaces.

use core::ffi::CStr;

use crate::runtime::descriptor::{Descriptor, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, syscall1, syscall2};

/// Clone and unshare flag: a new mount namespace.
pub const CLONE_NEWNS: u64 = 0x0002_0000;
/// Clone and unshare flag: a new cgroup namespace.
pub const CLONE_NEWCGROUP: u64 = 0x0200_0000;
/// Clone and unshare flag: a new UTS namespace.
pub const CLONE_NEWUTS: u64 = 0x0400_0000;
/// Clone and unshare flag: a new IPC namespace.
pub const CLONE_NEWIPC: u64 = 0x0800_0000;
/// Clone and unshare flag: a new user namespace.
pub const CLONE_NEWUSER: u64 = 0x1000_0000;
/// Clone and unshare flag: a new PID namespace (for future children, with unshare).
pub const CLONE_NEWPID: u64 = 0x2000_0000;
/// Clone and unshare flag: a new network namespace.
pub const CLONE_NEWNET: u64 = 0x4000_0000;

/// Moves the caller into new namespaces, as `flags` say.
///
/// # Errors
/// `EPERM` without the privilege, `ENOSPC` at a limit of namespaces.
pub fn unshare(flags: u64) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall1(nr::UNSHARE, flags as usize) })
}

/// Enters the namespace of a descriptor.
///
/// # Errors
/// `EPERM`, `EINVAL`.
pub fn enter(descriptor: impl Descriptor, kind: u64) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall2(nr::SETNS, word(descriptor), kind as usize) })
}

/// Sets the host name of the UTS namespace.
///
/// # Errors
/// `EPERM`; `EINVAL` above 64 bytes.
pub fn set_host_name(name: &CStr) -> Result<(), Errno> {
    let bytes = name.to_bytes();
    // SAFETY: the kernel reads `bytes`.
    check(unsafe { syscall2(nr::SETHOSTNAME, bytes.as_ptr() as usize, bytes.len()) })
}
