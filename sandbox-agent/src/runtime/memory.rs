//! Memory and memory files.

use core::ffi::CStr;

use crate::runtime::descriptor::{Descriptor, Fd, word};
use crate::runtime::errno::Result;
use crate::runtime::syscall::{check, nr, result, syscall2, syscall3, syscall6};

/// Protection: readable.
pub const PROT_READ: usize = 1;
/// Protection: writable.
pub const PROT_WRITE: usize = 2;
/// Protection: executable.
pub const PROT_EXEC: usize = 4;
/// Mapping: of the process alone.
pub const MAP_PRIVATE: usize = 2;
/// Mapping: shared.
pub const MAP_SHARED: usize = 1;
/// Mapping: of no file.
pub const MAP_ANONYMOUS: usize = 0x20;
/// Mapping: of pages that are there at once.
pub const MAP_POPULATE: usize = 0x8000;

/// Memory file: close on exec.
pub const MFD_CLOEXEC: u32 = 1;
/// Memory file: may be sealed.
pub const MFD_ALLOW_SEALING: u32 = 2;
/// Memory file: may be executed (from Linux 6.3, where a system says otherwise).
pub const MFD_EXEC: u32 = 0x10;

/// Seal: no further seals.
pub const F_SEAL_SEAL: u32 = 1;
/// Seal: never shorter.
pub const F_SEAL_SHRINK: u32 = 2;
/// Seal: never longer.
pub const F_SEAL_GROW: u32 = 4;
/// Seal: never written.
pub const F_SEAL_WRITE: u32 = 8;

/// Maps `length` bytes of fresh memory, readable and writable.
///
/// # Errors
/// `ENOMEM`.
pub fn map_anonymous(length: usize) -> Result<*mut u8> {
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
/// A shared mapping of a file can change under its reader.
///
/// # Errors
/// What `mmap` reports.
pub unsafe fn map(
    length: usize,
    protection: usize,
    flags: usize,
    descriptor: impl Descriptor,
    offset: u64,
) -> Result<*mut u8> {
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
/// Nobody may use the range any more.
///
/// # Errors
/// `EINVAL` for a bad range.
pub unsafe fn unmap(address: *mut u8, length: usize) -> Result<()> {
    // SAFETY: passed on to the caller.
    check(unsafe { syscall2(nr::MUNMAP, address as usize, length) })
}

/// Changes the protection of memory.
///
/// # Safety
/// Nobody may rely on what is taken away.
///
/// # Errors
/// What `mprotect` reports.
pub unsafe fn protect(address: *mut u8, length: usize, protection: usize) -> Result<()> {
    // SAFETY: passed on to the caller.
    check(unsafe { syscall3(nr::MPROTECT, address as usize, length, protection) })
}

/// A new file in memory.
///
/// # Errors
/// `EINVAL` for an unknown flag, `EMFILE`, `ENOMEM`.
pub fn memory_file(name: &CStr, flags: u32) -> Result<Fd> {
    // SAFETY: the kernel reads the string.
    result(unsafe { syscall2(nr::MEMFD_CREATE, name.as_ptr() as usize, flags as usize) })
        .map(|raw| Fd::from_raw(raw as i32))
}
