//! Creating processes.

use core::ffi::c_void;

use crate::runtime::descriptor::{Fd, RawFd};
use crate::runtime::errno::Errno;
use crate::runtime::process::Pid;
use crate::runtime::syscall::{clone_onto, nr, result, syscall5};

/// Clone flag: the child shares the memory of its parent.
pub const CLONE_VM: u64 = 0x100;
/// Clone flag: share the descriptor table, including descriptors that are opened later.
pub const CLONE_FILES: u64 = 0x400;
/// Clone flag: return a pidfd of the child.
pub const CLONE_PIDFD: u64 = 0x1000;
/// Clone flag: the calling thread waits until the child executes a program or ends.
pub const CLONE_VFORK: u64 = 0x4000;
/// Clone flag: the child gets the caller's parent, and the caller's exit signal.
pub const CLONE_PARENT: u64 = 0x8000;
/// Clone flag: a thread of the same process.
pub const CLONE_THREAD: u64 = 0x1_0000;
/// The signal that a child's exit sends to its parent, in the flags of `clone`.
pub const SIGCHLD_FLAG: u64 = 17;

/// Forks the process: `None` in the child, the child's PID in the parent.
///
/// # Safety
/// Only the calling thread exists in the child. The process must have one thread, or the child may
/// only do what is safe in a signal handler.
///
/// # Errors
/// `EAGAIN` at a limit of processes, `ENOMEM`.
pub unsafe fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: no stack and no pointer is passed; the rest is passed on to the caller.
    let word = unsafe { syscall5(nr::CLONE, SIGCHLD_FLAG as usize, 0, 0, 0, 0) };
    Ok(match result(word)? {
        0 => None,
        pid => Some(Pid(pid as i32)),
    })
}

/// Starts `entry(argument)` in a new process on its own stack, with these clone `flags` and
/// [`CLONE_PIDFD`]. Returns the child's PID and pidfd.
///
/// # Safety
/// `stack_top` must be the end of a stack, 16-byte aligned and unused until the child has executed
/// a program or exited. With [`CLONE_VM`], `entry` runs concurrently in the caller's memory, with
/// the caller's thread-local storage. It may only make system calls and read memory that no thread
/// writes.
///
/// # Errors
/// What `clone` reports.
pub unsafe fn clone_process(
    flags: u64,
    stack_top: *mut c_void,
    entry: unsafe extern "C" fn(*mut c_void) -> !,
    argument: *mut c_void,
) -> Result<(Pid, Fd), Errno> {
    let mut pidfd: RawFd = -1;
    let arguments = [
        nr::CLONE,
        (flags | CLONE_PIDFD | SIGCHLD_FLAG) as usize,
        stack_top as usize,
        &raw mut pidfd as usize,
        0,
        0,
    ];
    // SAFETY: the kernel writes one descriptor into `pidfd`; the rest is passed on to the caller.
    let word = unsafe { clone_onto(&arguments, entry, argument) };
    let pid = result(word)?;
    Ok((Pid(pid as i32), Fd::from_raw(pidfd)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::process::{Wait, exit, wait_for};

    #[test]
    fn forked_child_exits_with_its_code() {
        // SAFETY: the child makes one system call.
        match unsafe { fork() }.unwrap() {
            None => exit(42),
            Some(pid) => assert_eq!(wait_for(pid).unwrap(), Wait::Exited(42)),
        }
    }

    #[test]
    fn child_in_shared_memory_runs_on_its_own_stack() {
        unsafe extern "C" fn child(argument: *mut c_void) -> ! {
            // SAFETY: the parent waits for the child before it looks at the value.
            unsafe { argument.cast::<u32>().write(7) };
            exit(3)
        }
        let mut value = 0u32;
        let mut stack = std::vec![0u128; 4096];
        // SAFETY: the stack outlives the child, which only writes `value` and ends.
        let (pid, pidfd) = unsafe {
            clone_process(
                CLONE_VM,
                stack.as_mut_ptr_range().end.cast(),
                child,
                (&raw mut value).cast(),
            )
        }
        .unwrap();
        assert!(pidfd.as_raw() > 2);
        assert_eq!(wait_for(pid).unwrap(), Wait::Exited(3));
        // SAFETY: the child has ended.
        assert_eq!(unsafe { (&raw const value).read_volatile() }, 7);
    }
}
