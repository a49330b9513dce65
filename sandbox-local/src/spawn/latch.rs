//! A latch on which a new process waits until the host has prepared what it needs.
#![expect(unsafe_code, reason = "waiting in a child in shared memory")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sandbox_agent::runtime::Errno;
use sandbox_agent::runtime::syscall::{check, nr, syscall6};
use sandbox_agent::runtime::time::Timespec;

const CLOSED: u32 = 0;
const OPEN: u32 = 1;
const FAILED: u32 = 2;

/// A latch in memory that a process and its child share. Initially closed.
#[derive(Debug, Default)]
pub(crate) struct Latch(AtomicU32);

/// Opens a latch. If dropped before, waiters fail with `ECANCELED`.
#[derive(Debug)]
pub(crate) struct LatchOpener<'a>(&'a Latch, bool);

impl Latch {
    pub(crate) fn opener(&self) -> LatchOpener<'_> {
        LatchOpener(self, false)
    }

    /// Waits until it is open. Makes system calls only. Fails with `ECANCELED` if it will not open
    /// and with `ETIMEDOUT` after 4 s. The timeout covers a process whose owner was killed before
    /// the process set its death signal: nothing may outlive its owner by more than 5 s.
    pub(super) fn wait(&self) -> Result<(), Errno> {
        loop {
            match self.0.load(Ordering::Acquire) {
                OPEN => return Ok(()),
                CLOSED => {}
                _ => return Err(Errno::ECANCELED),
            }
            let waited = wait_on(&self.0, CLOSED, Duration::from_secs(4));
            match waited {
                Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn set(&self, state: u32) {
        self.0.store(state, Ordering::Release);
        wake(&self.0);
    }
}

impl LatchOpener<'_> {
    pub(crate) fn open(mut self) {
        self.1 = true;
        self.0.set(OPEN);
    }
}

impl Drop for LatchOpener<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.set(FAILED);
        }
    }
}

/// Waits while the word has this value. Makes one system call. Fails with `EAGAIN` if it has
/// another value, `ETIMEDOUT` or `EINTR`.
pub(super) fn wait_on(word: &AtomicU32, value: u32, longest: Duration) -> Result<(), Errno> {
    let longest = Timespec {
        seconds: longest.as_secs().cast_signed(),
        nanoseconds: longest.subsec_nanos().into(),
    };
    // SAFETY: the word and the timeout are valid; parent and child share their memory, so a private
    // futex works.
    check(unsafe {
        syscall6(
            nr::FUTEX,
            word.as_ptr() as usize,
            FUTEX_WAIT | FUTEX_PRIVATE,
            value as usize,
            &raw const longest as usize,
            0,
            0,
        )
    })
}

/// Wakes one waiter of the word. Makes one system call.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the word is valid.
    let woken = check(unsafe {
        syscall6(
            nr::FUTEX,
            word.as_ptr() as usize,
            FUTEX_WAKE | FUTEX_PRIVATE,
            1,
            0,
            0,
            0,
        )
    });
    debug_assert!(woken.is_ok(), "{woken:?}");
}

const FUTEX_WAIT: usize = 0;
const FUTEX_WAKE: usize = 1;
const FUTEX_PRIVATE: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_latch_releases_current_and_later_waiters() {
        let latch = Latch::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| latch.wait());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            latch.opener().open();
            assert_eq!(waiting.join().expect("no panic"), Ok(()));
        });
        assert_eq!(latch.wait(), Ok(()));
    }

    #[test]
    fn dropped_opener_cancels_waiters() {
        let latch = Latch::default();
        drop(latch.opener());
        assert_eq!(latch.wait(), Err(Errno::ECANCELED));
    }
}
