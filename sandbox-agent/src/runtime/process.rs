//! Processes: waiting, execution and attributes.

use core::ffi::{CStr, c_char};

use crate::runtime::descriptor::{Descriptor, Fd, word};
use crate::runtime::errno::Errno;
use crate::runtime::fs::AT_EMPTY_PATH;
use crate::runtime::syscall::{
    check, nr, result, retry, syscall0, syscall1, syscall2, syscall4, syscall5,
};

/// A PID in the caller's PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Exited with this code.
    Exited(u8),
    /// Killed by this signal.
    Signaled(u8),
}

impl Wait {
    fn from_status(status: i32) -> Option<Wait> {
        match status & 0x7f {
            0 => Some(Wait::Exited((status >> 8) as u8)),
            0x7f => None,
            signal => Some(Wait::Signaled(signal as u8)),
        }
    }
}

/// Resource usage of a process: `struct rusage`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// User time: seconds and microseconds.
    pub user: [i64; 2],
    /// System time: seconds and microseconds.
    pub system: [i64; 2],
    /// Largest resident memory in KiB. The kernel counts pages, so its `long` is never negative.
    pub max_rss_kib: u64,
    /// Memory over time, which Linux leaves at zero, page faults and swaps.
    before: [i64; 6],
    /// Read from and written to block devices, in units of 512 bytes.
    blocks: [i64; 2],
    /// Messages, signals and context switches.
    after: [i64; 5],
}

impl Usage {
    /// Processor time in microseconds.
    pub fn cpu_microseconds(&self) -> u64 {
        let part = |time: [i64; 2]| time[0].max(0) as u64 * 1_000_000 + time[1].max(0) as u64;
        part(self.user) + part(self.system)
    }

    /// Bytes read from and written to block devices.
    pub fn disk_bytes(&self) -> [u64; 2] {
        self.blocks.map(|blocks| blocks.max(0) as u64 * 512)
    }
}

/// Exits with all threads.
pub fn exit(code: i32) -> ! {
    loop {
        // SAFETY: the call takes no pointer and does not return.
        unsafe { syscall1(nr::EXIT_GROUP, code as usize) };
    }
}

/// Waits for a child to end, whatever its exit signal. Ignores stops.
///
/// # Errors
/// `ECHILD` when it is not a child, or was waited for already.
pub fn wait_for(pid: Pid) -> Result<Wait, Errno> {
    loop {
        if let Some((_, wait, _)) = wait4(pid.0, WALL)? {
            return Ok(wait);
        }
    }
}

/// Reaps a child that has ended, if any: its PID, end and usage.
///
/// # Errors
/// `ECHILD` when there is no child.
pub fn reap() -> Result<Option<(Pid, Wait, Usage)>, Errno> {
    wait4(-1, WNOHANG)
}

/// `wait4` option: do not wait.
pub const WNOHANG: i32 = 1;

/// `wait4` option: include children with another exit signal than SIGCHLD.
pub const WALL: i32 = 0x4000_0000;

/// `wait4`: reaps the child `selector` (`-1` for any). `None` after a stop, or with [`WNOHANG`] if
/// none has ended.
///
/// # Errors
/// `ECHILD` when there is no such child.
pub fn wait4(selector: i32, options: i32) -> Result<Option<(Pid, Wait, Usage)>, Errno> {
    let mut status = 0i32;
    let mut usage = Usage::default();
    let pid = retry(|| {
        // SAFETY: the kernel writes one status and one usage.
        result(unsafe {
            syscall4(
                nr::WAIT4,
                selector as usize,
                &raw mut status as usize,
                options as usize,
                &raw mut usage as usize,
            )
        })
    })?;
    if pid == 0 {
        return Ok(None);
    }
    Ok(Wait::from_status(status).map(|wait| (Pid(pid as i32), wait, usage)))
}

/// The caller's PID.
pub fn current() -> Pid {
    // SAFETY: the call takes nothing and cannot fail.
    Pid(unsafe { syscall0(nr::GETPID) } as i32)
}

/// Yields the processor.
pub fn yield_now() {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { syscall0(nr::SCHED_YIELD) };
}

/// The parent's PID; 0 if it is outside of the PID namespace.
pub fn parent() -> Pid {
    // SAFETY: the call takes nothing and cannot fail.
    Pid(unsafe { syscall0(nr::GETPPID) } as i32)
}

/// Starts a new session.
///
/// # Errors
/// `EPERM` when the caller leads a process group.
pub fn new_session() -> Result<(), Errno> {
    // SAFETY: the call takes nothing.
    check(unsafe { syscall0(nr::SETSID) })
}

/// Opens a pidfd.
///
/// # Errors
/// `ESRCH` when it does not exist, `ENOSYS` before Linux 5.3.
pub fn open_pidfd(pid: Pid) -> Result<Fd, Errno> {
    // SAFETY: the call takes no pointer.
    result(unsafe { syscall2(nr::PIDFD_OPEN, pid.0 as usize, 0) })
        .map(|raw| Fd::from_raw(raw as i32))
}

/// A nul-terminated list of nul-terminated strings, as `execve` takes it.
pub type StringList = *const *const c_char;

/// Executes the program at `path`. Returns only on failure.
///
/// # Safety
/// `arguments` and `environment` must be lists of pointers to nul-terminated strings, ended by a
/// null pointer.
pub unsafe fn execute(
    path: &CStr,
    arguments: StringList,
    environment: StringList,
) -> crate::runtime::Errno {
    // SAFETY: passed on to the caller.
    let word = unsafe {
        crate::runtime::syscall::syscall3(
            nr::EXECVE,
            path.as_ptr() as usize,
            arguments as usize,
            environment as usize,
        )
    };
    crate::runtime::Errno(-word as i32)
}

/// Executes the program that `descriptor` refers to. Returns only on failure.
///
/// # Safety
/// As [`execute`].
pub unsafe fn execute_descriptor(
    descriptor: impl Descriptor,
    arguments: StringList,
    environment: StringList,
) -> crate::runtime::Errno {
    // SAFETY: the path is empty and lives; the rest is passed on to the caller.
    let word = unsafe {
        syscall5(
            nr::EXECVEAT,
            word(descriptor),
            c"".as_ptr() as usize,
            arguments as usize,
            environment as usize,
            AT_EMPTY_PATH as usize,
        )
    };
    crate::runtime::Errno(-word as i32)
}

/// `prctl` operation: the signal sent when the parent's thread ends.
pub const PR_SET_PDEATHSIG: i32 = 1;
/// `prctl` operation: whether the process can be traced and dumped.
pub const PR_SET_DUMPABLE: i32 = 4;
/// `prctl` operation: keep permitted capabilities across a change of identity.
pub const PR_SET_KEEPCAPS: i32 = 8;
/// `prctl` operation: the process's name, 15 bytes.
pub const PR_SET_NAME: i32 = 15;
/// `prctl` operation: whether a capability is in the bounding set.
pub const PR_CAPBSET_READ: i32 = 23;
/// `prctl` operation: drop a capability from the bounding set.
pub const PR_CAPBSET_DROP: i32 = 24;
/// `prctl` operation: become a child subreaper, which adopts orphaned descendants.
pub const PR_SET_CHILD_SUBREAPER: i32 = 36;
/// `prctl` operation: `execve` grants no privileges.
pub const PR_SET_NO_NEW_PRIVS: i32 = 38;
/// `prctl` operation: the ambient capabilities.
pub const PR_CAP_AMBIENT: i32 = 47;
/// [`PR_CAP_AMBIENT`]: whether one is there.
pub const PR_CAP_AMBIENT_IS_SET: usize = 1;
/// [`PR_CAP_AMBIENT`]: add one.
pub const PR_CAP_AMBIENT_RAISE: usize = 2;
/// [`PR_CAP_AMBIENT`]: remove all.
pub const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;

/// `prctl` with numbers as arguments.
///
/// # Safety
/// `argument` and `second` must be what `operation` expects, a valid pointer where it takes one.
///
/// # Errors
/// What the operation reports; `EINVAL` for an unknown one.
pub unsafe fn prctl(operation: i32, argument: usize, second: usize) -> Result<usize, Errno> {
    // SAFETY: passed on to the caller.
    result(unsafe { syscall5(nr::PRCTL, operation as usize, argument, second, 0, 0) })
}

/// `prctl` with an operation that takes plain numbers.
///
/// # Errors
/// What the operation reports.
pub fn set_attribute(operation: i32, argument: usize, second: usize) -> Result<(), Errno> {
    match operation {
        PR_SET_PDEATHSIG
        | PR_SET_DUMPABLE
        | PR_SET_KEEPCAPS
        | PR_CAPBSET_DROP
        | PR_SET_CHILD_SUBREAPER
        | PR_SET_NO_NEW_PRIVS
        | PR_CAP_AMBIENT => {
            // SAFETY: these operations take numbers only.
            unsafe { prctl(operation, argument, second) }.map(drop)
        }
        _ => Err(crate::runtime::Errno::EINVAL),
    }
}
