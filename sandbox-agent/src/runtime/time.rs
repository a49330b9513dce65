//! Time.

use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, syscall2, syscall4};

/// `struct timespec`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timespec {
    /// Whole seconds.
    pub seconds: i64,
    /// The rest, below 1,000,000,000.
    pub nanoseconds: i64,
}

impl Timespec {
    /// This many microseconds.
    pub const fn from_microseconds(microseconds: u64) -> Timespec {
        Timespec {
            seconds: (microseconds / 1_000_000) as i64,
            nanoseconds: (microseconds % 1_000_000 * 1000) as i64,
        }
    }
}

/// Microseconds since some moment that does not change: `CLOCK_MONOTONIC`.
pub fn monotonic_microseconds() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut now = Timespec::default();
    // SAFETY: the kernel writes one record. This clock always exists, so the result says nothing.
    unsafe { syscall2(nr::CLOCK_GETTIME, CLOCK_MONOTONIC, &raw mut now as usize) };
    now.seconds as u64 * 1_000_000 + now.nanoseconds as u64 / 1000
}

/// Microseconds since the machine's start, the time that it slept included: `CLOCK_BOOTTIME`.
pub fn boottime_microseconds() -> u64 {
    const CLOCK_BOOTTIME: usize = 7;
    let mut now = Timespec::default();
    // SAFETY: the kernel writes one record. This clock exists since Linux 2.6.39, so the result
    // says nothing.
    unsafe { syscall2(nr::CLOCK_GETTIME, CLOCK_BOOTTIME, &raw mut now as usize) };
    now.seconds as u64 * 1_000_000 + now.nanoseconds as u64 / 1000
}

/// Sleeps this many microseconds, or less when a signal comes.
///
/// # Errors
/// `EINTR`.
pub fn sleep_microseconds(microseconds: u64) -> Result<(), Errno> {
    let time = Timespec::from_microseconds(microseconds);
    const CLOCK_MONOTONIC: usize = 1;
    // SAFETY: the kernel reads one record and writes no rest.
    check(unsafe {
        syscall4(
            nr::CLOCK_NANOSLEEP,
            CLOCK_MONOTONIC,
            0,
            &raw const time as usize,
            0,
        )
    })
}
