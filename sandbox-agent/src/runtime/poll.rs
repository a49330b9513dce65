//! Polling descriptors.

use crate::runtime::descriptor::RawFd;
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{nr, result, syscall5};
use crate::runtime::time::Timespec;

/// Readable.
pub const POLLIN: i16 = 1;
/// Writable.
pub const POLLOUT: i16 = 4;
/// An error is pending.
pub const POLLERR: i16 = 8;
/// The peer has hung up.
pub const POLLHUP: i16 = 16;
/// The descriptor is not open.
pub const POLLNVAL: i16 = 32;

/// A descriptor to poll: `struct pollfd`. Negative descriptors are ignored.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PollFd {
    /// The descriptor.
    pub descriptor: RawFd,
    /// The requested events.
    pub events: i16,
    /// The returned events.
    pub revents: i16,
}

impl PollFd {
    /// Polls `descriptor` for `events`.
    pub const fn new(descriptor: RawFd, events: i16) -> PollFd {
        PollFd {
            descriptor,
            events,
            revents: 0,
        }
    }
}

/// Waits for events for at most `timeout` microseconds, `None` for no limit. Returns the number of
/// ready descriptors; 0 after a signal.
///
/// # Errors
/// `EINVAL` above the limit of descriptors.
pub fn poll(descriptors: &mut [PollFd], timeout: Option<u64>) -> Result<usize, Errno> {
    let time = timeout.map(Timespec::from_microseconds);
    let time = time
        .as_ref()
        .map_or(0, |time| core::ptr::from_ref(time) as usize);
    // SAFETY: the kernel reads and writes the records, and reads the time; no signal mask is
    // passed.
    let word = unsafe {
        syscall5(
            nr::PPOLL,
            descriptors.as_mut_ptr() as usize,
            descriptors.len(),
            time,
            0,
            8,
        )
    };
    match result(word) {
        Err(Errno::EINTR) => {
            for descriptor in descriptors {
                descriptor.revents = 0;
            }
            Ok(0)
        }
        other => other,
    }
}
