//! Memory mappings.

use crate::runtime::descriptor::{Descriptor, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, result, syscall2, syscall3, syscall6};

/// Protection: readable.
pub const PROT_READ: usize = 1;
/// Protection: writable.
pub const PROT_WRITE: usize = 2;
/// Protection: executable.
pub const PROT_EXEC: usize = 4;
/// Mapping: private.
pub const MAP_PRIVATE: usize = 2;
/// Mapping: shared.
pub const MAP_SHARED: usize = 1;
/// Mapping: anonymous.
pub const MAP_ANONYMOUS: usize = 0x20;
/// Mapping: allocate the pages at once.
pub const MAP_POPULATE: usize = 0x8000;

/// Maps `length` bytes of fresh memory, readable and writable.
///
/// # Errors
/// `ENOMEM`.
pub fn map_anonymous(length: usize) -> Result<*mut u8, Errno> {
    // SAFETY: the kernel chooses the address, so nothing that exists is touched.
    unsafe {
        map(
            length,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0,
        )
    }
}

/// `mmap` at an address of the kernel's choice.
///
/// # Safety
/// A shared mapping of a file can change while it is read.
///
/// # Errors
/// What `mmap` reports.
pub unsafe fn map(
    length: usize,
    protection: usize,
    flags: usize,
    descriptor: impl Descriptor,
    offset: u64,
) -> Result<*mut u8, Errno> {
    // SAFETY: no address is passed, so nothing that exists is replaced.
    result(unsafe {
        syscall6(
            nr::MMAP,
            0,
            length,
            protection,
            flags,
            word(descriptor),
            offset as usize,
        )
    })
    .map(|address| address as *mut u8)
}

/// Unmaps memory.
///
/// # Safety
/// The range must not be used any more.
///
/// # Errors
/// `EINVAL` for a bad range.
pub unsafe fn unmap(address: *mut u8, length: usize) -> Result<(), Errno> {
    // SAFETY: passed on to the caller.
    check(unsafe { syscall2(nr::MUNMAP, address as usize, length) })
}

/// Changes the protection of memory.
///
/// # Safety
/// No code may depend on the removed access.
///
/// # Errors
/// What `mprotect` reports.
pub unsafe fn protect(address: *mut u8, length: usize, protection: usize) -> Result<(), Errno> {
    // SAFETY: passed on to the caller.
    check(unsafe { syscall3(nr::MPROTECT, address as usize, length, protection) })
}
