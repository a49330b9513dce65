//! Memory that `fork` does not copy.

use crate::runtime::{
    Errno, memory,
    syscall::{check, nr, syscall3},
};

/// Zeroed memory that child processes do not inherit. So a large buffer of the agent does not slow
/// down `fork`, and does not count as memory of the child's program.
#[derive(Debug)]
pub(super) struct PrivateMemory {
    start: *mut u8,
    length: usize,
}

impl PrivateMemory {
    /// Maps `length` bytes. Pages are allocated when they are first written.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(length: usize) -> Result<Self, Errno> {
        const MADV_DONTFORK: usize = 10;
        if length == 0 {
            return Ok(Self {
                start: core::ptr::dangling_mut(),
                length,
            });
        }
        let region = Self {
            start: memory::map_anonymous(length)?,
            length,
        };
        // SAFETY: the range belongs to this value, and no child uses it: a child runs one program
        // or one builtin.
        check(unsafe { syscall3(nr::MADVISE, region.start as usize, length, MADV_DONTFORK) })?;
        Ok(region)
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the region is mapped for as long as it lives, is initialized with zeros, and is
        // borrowed with `self`.
        unsafe { core::slice::from_raw_parts(self.start, self.length) }
    }

    /// The bytes, writable.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for PrivateMemory {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: no borrow outlives the region. The kernel knows the range, so the call cannot
            // fail.
            let _ = unsafe { memory::unmap(self.start, self.length) };
        }
    }
}
