//! Resource limits.

use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, syscall4};

/// Processor seconds.
pub const RLIMIT_CPU: u32 = 0;
/// Size of a file.
pub const RLIMIT_FSIZE: u32 = 1;
/// Data and anonymous memory.
pub const RLIMIT_DATA: u32 = 2;
/// Core dumps.
pub const RLIMIT_CORE: u32 = 4;
/// Processes of the user.
pub const RLIMIT_NPROC: u32 = 6;
/// Open descriptors.
pub const RLIMIT_NOFILE: u32 = 7;
/// Address space.
pub const RLIMIT_AS: u32 = 9;

/// A soft and a hard limit: `struct rlimit64`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rlimit {
    /// The current limit.
    pub soft: u64,
    /// The maximum to which it can be raised.
    pub hard: u64,
}

/// The caller's limit.
///
/// # Errors
/// `EINVAL` for an unknown resource.
pub fn get(resource: u32) -> Result<Rlimit, Errno> {
    let mut limit = Rlimit::default();
    // SAFETY: the kernel writes one record.
    check(unsafe {
        syscall4(
            nr::PRLIMIT64,
            0,
            resource as usize,
            0,
            &raw mut limit as usize,
        )
    })?;
    Ok(limit)
}

/// Sets the caller's limit.
///
/// # Errors
/// `EPERM` above the hard limit without `CAP_SYS_RESOURCE`, `EINVAL`.
pub fn set(resource: u32, limit: Rlimit) -> Result<(), Errno> {
    // SAFETY: the kernel reads one record.
    check(unsafe {
        syscall4(
            nr::PRLIMIT64,
            0,
            resource as usize,
            &raw const limit as usize,
            0,
        )
    })
}
