//! Owned file descriptors.

use core::mem::ManuallyDrop;

use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, syscall1};

/// A file descriptor's number.
pub type RawFd = i32;

/// Something with a descriptor number: an [`Fd`], a reference to one, or a plain number.
pub trait Descriptor {
    /// The number.
    fn raw(&self) -> RawFd;
}

impl Descriptor for RawFd {
    fn raw(&self) -> RawFd {
        *self
    }
}

impl Descriptor for Fd {
    fn raw(&self) -> RawFd {
        self.0
    }
}

impl<T: Descriptor + ?Sized> Descriptor for &T {
    fn raw(&self) -> RawFd {
        (**self).raw()
    }
}

/// An open file descriptor that is closed when dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Fd(RawFd);

impl Fd {
    /// Takes ownership of `raw`, which must be open and have no other owner.
    pub const fn from_raw(raw: RawFd) -> Fd {
        Fd(raw)
    }

    /// The descriptor's number. `self` stays its owner.
    pub const fn as_raw(&self) -> RawFd {
        self.0
    }

    /// Releases ownership without closing the descriptor.
    pub fn into_raw(self) -> RawFd {
        ManuallyDrop::new(self).0
    }

    /// Closes the descriptor and reports errors. It is closed in any case: Linux frees the number
    /// first.
    ///
    /// # Errors
    /// What `close` reports, such as a write error that was deferred.
    pub fn close(self) -> Result<(), Errno> {
        close(self.into_raw())
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // Use `Fd::close` to see deferred errors.
        let _ = close(self.0);
    }
}

/// Closes a descriptor by number. Never retried on `EINTR`, because the number is already free.
///
/// # Errors
/// `EBADF` when it was not open, or a deferred write error.
pub fn close(raw: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall1(nr::CLOSE, raw as usize) })
}

/// A descriptor as an argument: sign-extended, so that `AT_FDCWD` stays negative.
pub(crate) fn word(descriptor: impl Descriptor) -> usize {
    descriptor.raw() as isize as usize
}
