//! Clones a process that shares our memory until it executes a program: the cost does not depend on
//! the host's memory size.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use sandbox_agent::runtime::clone::{CLONE_PIDFD, CLONE_VFORK, CLONE_VM, SIGCHLD_FLAG};
use sandbox_agent::runtime::memory::{map_anonymous, protect, unmap};
use sandbox_agent::runtime::process::exit;
use sandbox_agent::runtime::signal::{SignalSet, set_mask};
use sandbox_agent::runtime::syscall::{clone_onto, nr, result};
use sandbox_agent::runtime::{Errno, Pid, RawFd};

/// The code of a child. It runs in the caller's memory and thread-local storage. It may make system
/// calls and write to its argument, and nothing else: no allocation, no panic, no `errno`.
pub(crate) type ChildBody = unsafe extern "C" fn(*mut c_void) -> !;

/// A new process.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its process id. Not reused until the process is reaped.
    pub(crate) pid: Pid,
    /// Its pidfd.
    pub(crate) pidfd: OwnedFd,
}

/// A stack with a guard area below it.
#[derive(Debug)]
pub(crate) struct Stack {
    base: *mut u8,
}

// SAFETY: this value owns the memory, whichever thread holds it.
unsafe impl Send for Stack {}

impl Stack {
    const GUARD: usize = 64 * 1024;
    const SIZE: usize = 128 * 1024;

    pub(crate) fn new() -> Result<Self, Errno> {
        let base = map_anonymous(Self::GUARD + Self::SIZE)?;
        let stack = Self { base };
        // SAFETY: fresh memory that nothing uses. 64 KiB is a multiple of every page size in use.
        unsafe { protect(base, Self::GUARD, 0) }?;
        Ok(stack)
    }

    fn top(&self) -> *mut c_void {
        // SAFETY: the end of the mapping.
        unsafe { self.base.add(Self::GUARD + Self::SIZE) }.cast()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: no child uses the stack: each borrows it until it has ended or executed a
        // program.
        let freed = unsafe { unmap(self.base, Self::GUARD + Self::SIZE) };
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

/// Runs `body(argument)` in a new process with these namespaces (`CLONE_NEW*`), in a v2 control
/// group if given. Returns once the child has executed a program or ended. The child, and the
/// program that it executes, have all signals blocked.
///
/// # Safety
///
/// `body` must obey [`ChildBody`], and `argument` must be what it expects.
pub(crate) unsafe fn run(
    namespaces: u64,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    body: ChildBody,
    argument: *mut c_void,
) -> Result<Child, Errno> {
    // SAFETY: the caller's contract; with CLONE_VFORK the child has left the stack when this
    // returns.
    unsafe { start(namespaces | CLONE_VFORK, cgroup, stack, body, argument) }
}

/// Like [`run`], without waiting.
///
/// # Safety
///
/// As [`run`]. In addition, `stack` and what `argument` points to must stay valid until the child
/// has ended.
pub(crate) unsafe fn start(
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    body: ChildBody,
    argument: *mut c_void,
) -> Result<Child, Errno> {
    let mut pidfd: RawFd = -1;
    let flags = flags | SIGCHLD_FLAG;
    // SAFETY: the caller's contract.
    let pid = unsafe { start_and_note(flags, cgroup, stack, body, argument, &mut pidfd) }?;
    // SAFETY: the kernel has created the descriptor for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child { pid, pidfd })
}

/// Like [`start`], but stores the child's pidfd in `pidfd` before the child runs, and takes its
/// exit signal from the low byte of `flags`. Makes system calls only.
///
/// # Safety
///
/// As [`start`].
pub(super) unsafe fn start_and_note(
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    body: ChildBody,
    argument: *mut c_void,
    pidfd: &mut RawFd,
) -> Result<Pid, Errno> {
    let flags = flags | CLONE_VM | CLONE_PIDFD;
    // Block all signals: a handler of the host process must not run in the child, which shares the
    // host's memory.
    let mask = set_mask(SignalSet::ALL)?;
    let word = match cgroup {
        None => {
            let arguments = [
                nr::CLONE,
                flags as usize,
                stack.top() as usize,
                std::ptr::from_mut(pidfd) as usize,
                0,
                0,
            ];
            // SAFETY: the stack is unused and large enough, and the kernel writes one descriptor;
            // the rest is the caller's contract.
            unsafe { clone_onto(&arguments, body, argument) }
        }
        Some(cgroup) => {
            let record = CloneArguments {
                flags: flags & !EXIT_SIGNAL | CLONE_INTO_CGROUP,
                pidfd: std::ptr::from_mut(pidfd) as u64,
                exit_signal: flags & EXIT_SIGNAL,
                stack: stack.base as u64,
                stack_size: (Stack::GUARD + Stack::SIZE) as u64,
                cgroup: cgroup.as_raw_fd() as u64,
                ..CloneArguments::default()
            };
            let arguments = [
                nr::CLONE3,
                &raw const record as usize,
                size_of::<CloneArguments>(),
                0,
                0,
                0,
            ];
            // SAFETY: as above; the record lives until the call returns.
            unsafe { clone_onto(&arguments, body, argument) }
        }
    };
    let restored = set_mask(mask);
    debug_assert!(restored.is_ok(), "{restored:?}");
    result(word).map(|pid| Pid(pid as i32))
}

/// Whether the kernel can clone into a control group (v2, Linux 5.7). Creates no process.
pub(crate) fn knows_groups() -> Result<(), Errno> {
    let null = std::fs::File::open("/dev/null").map_err(|_| Errno::ENOENT)?;
    unsafe extern "C" fn end(_: *mut c_void) -> ! {
        exit(0)
    }
    let stack = Stack::new()?;
    // SAFETY: the body exits at once and touches nothing.
    let refused = unsafe { run(0, Some(null.as_fd()), &stack, end, std::ptr::null_mut()) };
    match refused {
        // The kernel has read the whole record, and rejected the descriptor, which is not a group.
        Err(Errno::EBADF) => Ok(()),
        Err(errno) => Err(errno),
        Ok(child) => {
            // Not expected; the child has exited.
            let _ = sandbox_agent::runtime::process::wait_for(child.pid);
            Ok(())
        }
    }
}

/// The byte of the clone flags that holds the exit signal.
const EXIT_SIGNAL: u64 = 0xff;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args` up to the field added in Linux 5.7.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// The step at which a child failed. The child writes it; the parent reads it after the child's
/// end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChildFailure<Step> {
    /// The failed step; the default means that nothing failed.
    pub(crate) step: Step,
    /// The kernel's error number.
    pub(crate) errno: i32,
}

impl<Step> ChildFailure<Step> {
    /// Records the failure and ends the child.
    pub(crate) fn end(&mut self, step: Step, errno: Errno) -> ! {
        self.step = step;
        self.errno = errno.0;
        exit(127)
    }
}

#[cfg(test)]
mod tests {
    use sandbox_agent::runtime::process::{Wait, wait_for};

    use super::*;

    unsafe extern "C" fn write_and_end(argument: *mut c_void) -> ! {
        // SAFETY: the parent waits, and the pointer is to its number.
        unsafe { argument.cast::<u32>().write(7) };
        exit(3)
    }

    #[test]
    fn child_shares_memory_and_the_caller_waits_for_it() {
        let mut value = 0u32;
        let stack = Stack::new().expect("memory");
        // SAFETY: the body writes its argument and ends.
        let child = unsafe { run(0, None, &stack, write_and_end, (&raw mut value).cast()) };
        let child = child.expect("a process");
        assert_eq!(value, 7);
        assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3)));
    }

    #[test]
    fn clone3_arguments_are_accepted_where_the_call_is_allowed() {
        // SAFETY: the kernel refuses arguments of size 0 before it reads them.
        let refused = unsafe { libc::syscall(libc::SYS_clone3, 0, 0) };
        let error = std::io::Error::last_os_error().raw_os_error();
        assert_eq!(refused, -1);
        // Some containers deny system calls that their filter does not know.
        let expected = match error {
            Some(libc::ENOSYS) => Err(Errno::ENOSYS),
            _ => Ok(()),
        };
        assert_eq!(knows_groups(), expected);
    }
}
