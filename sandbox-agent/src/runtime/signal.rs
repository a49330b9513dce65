//! Signals without handlers: blocked, ignored, or read from a descriptor.

use crate::runtime::descriptor::{Descriptor, Fd, word};
use crate::runtime::errno::Errno;
use crate::runtime::process::Pid;
use crate::runtime::syscall::{check, nr, result, syscall2, syscall4};

/// Hang-up.
pub const SIGHUP: i32 = 1;
/// Interrupt.
pub const SIGINT: i32 = 2;
/// Cannot be caught.
pub const SIGKILL: i32 = 9;
/// A write without a reader.
pub const SIGPIPE: i32 = 13;
/// Termination request.
pub const SIGTERM: i32 = 15;
/// A child ended.
pub const SIGCHLD: i32 = 17;
/// Continue.
pub const SIGCONT: i32 = 18;
/// Cannot be caught: stop.
pub const SIGSTOP: i32 = 19;

/// A set of signals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// Every signal.
    pub const ALL: SignalSet = SignalSet(u64::MAX);

    /// This set and `signal`.
    #[must_use]
    pub const fn with(self, signal: i32) -> SignalSet {
        SignalSet(self.0 | 1 << (signal - 1))
    }
}

/// Makes `set` the blocked signals of the calling thread and returns what they were.
///
/// # Errors
/// None with these arguments.
pub fn set_mask(set: SignalSet) -> Result<SignalSet, Errno> {
    let mut old = SignalSet::default();
    const SIG_SETMASK: usize = 2;
    // SAFETY: the kernel reads and writes sets of 8 bytes.
    check(unsafe {
        syscall4(
            nr::RT_SIGPROCMASK,
            SIG_SETMASK,
            &raw const set as usize,
            &raw mut old as usize,
            8,
        )
    })?;
    Ok(old)
}

#[repr(C)]
struct SignalAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

fn act(signal: i32, handler: usize) -> Result<(), Errno> {
    let action = SignalAction {
        handler,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    // SAFETY: the kernel reads the record; neither default nor ignore runs any code.
    check(unsafe {
        syscall4(
            nr::RT_SIGACTION,
            signal as usize,
            &raw const action as usize,
            0,
            8,
        )
    })
}

/// Ignores a signal.
///
/// # Errors
/// `EINVAL` for one that cannot be ignored.
pub fn ignore(signal: i32) -> Result<(), Errno> {
    act(signal, 1)
}

/// Gives a signal its default effect again.
///
/// # Errors
/// `EINVAL` for one that cannot be changed.
pub fn set_default(signal: i32) -> Result<(), Errno> {
    act(signal, 0)
}

/// A descriptor that becomes readable when one of the (blocked) signals is pending. Reading it
/// takes records of 128 bytes whose first word is the signal. Close-on-exec and non-blocking.
///
/// # Errors
/// `EMFILE`, `ENFILE`.
pub fn descriptor(set: SignalSet) -> Result<Fd, Errno> {
    let flags = crate::runtime::fs::O_CLOEXEC | crate::runtime::fs::O_NONBLOCK;
    // SAFETY: the kernel reads a set of 8 bytes.
    result(unsafe {
        syscall4(
            nr::SIGNALFD4,
            usize::MAX,
            &raw const set as usize,
            8,
            flags as usize,
        )
    })
    .map(|raw| Fd::from_raw(raw as i32))
}

/// Sends a signal: to a process, with a negative number to a process group, with -1 to all.
///
/// # Errors
/// `ESRCH` if there is no such process, `EPERM`.
pub fn kill(pid: Pid, signal: i32) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall2(nr::KILL, pid.0 as usize, signal as usize) })
}

/// Sends a signal to the process of a descriptor.
///
/// # Errors
/// `ESRCH` when it has ended and was waited for, `EPERM`.
pub fn send(pidfd: impl Descriptor, signal: i32) -> Result<(), Errno> {
    // SAFETY: no further information is passed.
    check(unsafe { syscall4(nr::PIDFD_SEND_SIGNAL, word(pidfd), signal as usize, 0, 0) })
}
