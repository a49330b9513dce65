//! Making a process that shares our memory until it executes a program, so that the size of the host process costs nothing.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use sandbox_freestanding::clone::{CLONE_PIDFD, CLONE_VFORK, CLONE_VM, SIGCHLD_FLAG};
use sandbox_freestanding::memory::{map_anonymous, protect, unmap};
use sandbox_freestanding::process::exit;
use sandbox_freestanding::signal::{SignalSet, set_mask};
use sandbox_freestanding::syscall::{clone_onto, nr, result};
use sandbox_freestanding::{Errno, Pid, RawFd};

/// What a child does. It runs in the caller's memory and on the caller's thread-local storage, so it may make system calls and
/// write to its own argument, and nothing else: no allocation, no panic, no `errno`.
pub(crate) type ChildBody = unsafe extern "C" fn(*mut c_void) -> !;

/// A process that was made.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its number here. It stays taken until the process is waited for.
    pub(crate) pid: Pid,
    /// Its descriptor.
    pub(crate) pidfd: OwnedFd,
}

/// A stack with a page below it that faults.
#[derive(Debug)]
pub(crate) struct Stack {
    base: *mut u8,
}

// SAFETY: the memory belongs to this value alone, whichever thread holds it.
unsafe impl Send for Stack {}

impl Stack {
    const GUARD: usize = 64 * 1024;
    const SIZE: usize = 128 * 1024;

    pub(crate) fn new() -> Result<Self, Errno> {
        let base = map_anonymous(Self::GUARD + Self::SIZE)?;
        let stack = Self { base };
        // SAFETY: the range is fresh memory that nobody uses. 64 KiB is a whole number of pages of every size in use.
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
        // SAFETY: no child runs on the stack any more: each keeps it borrowed until it has ended or executed a program.
        let freed = unsafe { unmap(self.base, Self::GUARD + Self::SIZE) };
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

/// Runs `body(argument)` in a new process with these namespaces (`CLONE_NEW*`), in a cgroup v2 where one is given, and waits
/// until it has executed a program or ended. The child has every signal blocked, and so has the program that it executes.
///
/// # Safety
///
/// `body` must keep to what [`ChildBody`] says, and `argument` must be what it expects.
pub(crate) unsafe fn run(
    namespaces: u64,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    body: ChildBody,
    argument: *mut c_void,
) -> Result<Child, Errno> {
    // SAFETY: passed on to the caller; with CLONE_VFORK the child is off the stack when the call returns.
    unsafe { start(namespaces | CLONE_VFORK, cgroup, stack, body, argument) }
}

/// Like [`run`], without waiting.
///
/// # Safety
///
/// As [`run`]; and `stack` and what `argument` points to must stay as they are until the child has ended.
pub(crate) unsafe fn start(
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    body: ChildBody,
    argument: *mut c_void,
) -> Result<Child, Errno> {
    let flags = flags | CLONE_VM | CLONE_PIDFD;
    let mut pidfd: RawFd = -1;
    // A handler of the host process must not run in the child: it would see, and write, the memory of the host.
    let mask = set_mask(SignalSet::ALL)?;
    let word = match cgroup {
        None => {
            let arguments = [
                nr::CLONE,
                (flags | SIGCHLD_FLAG) as usize,
                stack.top() as usize,
                &raw mut pidfd as usize,
                0,
                0,
            ];
            // SAFETY: the stack is large enough and unused, the kernel writes one descriptor; the rest is the caller's promise.
            unsafe { clone_onto(&arguments, body, argument) }
        }
        Some(cgroup) => {
            let record = CloneArguments {
                flags: flags | CLONE_INTO_CGROUP,
                pidfd: &raw mut pidfd as u64,
                exit_signal: SIGCHLD_FLAG,
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
    let pid = result(word)?;
    debug_assert!(restored.is_ok(), "{restored:?}");
    // SAFETY: the kernel made the descriptor for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child {
        pid: Pid(pid as i32),
        pidfd,
    })
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args`, up to the field that came with Linux 5.7.
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

/// Where a child failed; written by the child, read once it has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChildFailure<Step> {
    /// The step; the default means that nothing failed.
    pub(crate) step: Step,
    /// The kernel's error number.
    pub(crate) errno: i32,
}

impl<Step> ChildFailure<Step> {
    /// Notes the failure and ends the child.
    pub(crate) fn end(&mut self, step: Step, errno: Errno) -> ! {
        self.step = step;
        self.errno = errno.0;
        exit(127)
    }
}

#[cfg(test)]
mod tests {
    use sandbox_freestanding::process::{Wait, wait_for};

    use super::*;

    unsafe extern "C" fn write_and_end(argument: *mut c_void) -> ! {
        // SAFETY: the parent waits, and the pointer is to its number.
        unsafe { argument.cast::<u32>().write(7) };
        exit(3)
    }

    #[test]
    fn a_child_runs_in_our_memory_and_the_caller_waits_for_it() {
        let mut value = 0u32;
        let stack = Stack::new().expect("memory");
        // SAFETY: the body writes its argument and ends.
        let child = unsafe { run(0, None, &stack, write_and_end, (&raw mut value).cast()) };
        let child = child.expect("a process");
        assert_eq!(value, 7);
        assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3)));
    }

    #[test]
    fn clone3_is_spelled_right() {
        let root = std::fs::File::open("/").expect("the root can be opened");
        let mut value = 0u32;
        let stack = Stack::new().expect("memory");
        let folder = Some(std::os::fd::AsFd::as_fd(&root));
        // SAFETY: as above.
        let child = unsafe { run(0, folder, &stack, write_and_end, (&raw mut value).cast()) };
        // A folder that is no cgroup: the kernel has read the whole record before it says so.
        assert_eq!(child.map(|child| child.pid), Err(Errno::EBADF));
    }
}
