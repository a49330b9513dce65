//! Owned file descriptors.

use core::mem::ManuallyDrop;

use crate::runtime::errno::Result;
use crate::runtime::syscall::{check, nr, syscall1};

/// A file descriptor's number.
pub type RawFd = i32;

/// What names an open file: an [`Fd`], a reference to one, or a plain number.
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
    /// Takes over `raw`, which must be open and owned by nobody else: it will be closed on drop.
    pub const fn from_raw(raw: RawFd) -> Fd {
        Fd(raw)
    }

    /// The number; the descriptor stays owned by `self`.
    pub const fn as_raw(&self) -> RawFd {
        self.0
    }

    /// Gives the descriptor away without closing it.
    pub fn into_raw(self) -> RawFd {
        ManuallyDrop::new(self).0
    }

    /// Closes the descriptor and reports what the kernel says. Afterwards it is closed, whatever
    /// the result: Linux frees the number before it can fail.
    ///
    /// # Errors
    /// What `close` reports, such as a write error that was deferred.
    pub fn close(self) -> Result<()> {
        close(self.into_raw())
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // A deferred error has nobody to go to here; who cares calls `Fd::close`.
        let _ = close(self.0);
    }
}

/// Closes a descriptor by number. Not repeated on `EINTR`, since the number is free by then.
///
/// # Errors
/// `EBADF` when it was not open, or a deferred write error.
pub fn close(raw: RawFd) -> Result<()> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall1(nr::CLOSE, raw as usize) })
}

/// The argument word of a descriptor: sign-extended, so that `AT_FDCWD` stays negative.
pub(crate) fn word(descriptor: impl Descriptor) -> usize {
    descriptor.raw() as isize as usize
}
