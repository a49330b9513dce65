//! Making processes.

use core::ffi::c_void;

use crate::runtime::descriptor::{Fd, RawFd};
use crate::runtime::errno::Result;
use crate::runtime::process::Pid;
use crate::runtime::syscall::{clone_onto, nr, result, syscall5};

/// Clone flag: the child shares the memory of its parent.
pub const CLONE_VM: u64 = 0x100;
/// Clone flag: both have the same descriptors, those included that one of them opens later.
pub const CLONE_FILES: u64 = 0x400;
/// Clone flag: the parent receives a descriptor of the child.
pub const CLONE_PIDFD: u64 = 0x1000;
/// Clone flag: the calling thread waits until the child executes a program or ends.
pub const CLONE_VFORK: u64 = 0x4000;
/// Clone flag: the child's parent is the caller's own. Its end sends what the caller's end would.
pub const CLONE_PARENT: u64 = 0x8000;
/// Clone flag: a thread of the same process.
pub const CLONE_THREAD: u64 = 0x1_0000;
/// The signal that a child's end sends to its parent, in a clone's flags.
pub const SIGCHLD_FLAG: u64 = 17;

/// Makes a copy of the process: `None` in the child, the child's identifier in the parent.
///
/// # Safety
/// Only the calling thread exists in the child. The process must have one thread, or the child must
/// do nothing but what is safe in a signal handler.
///
/// # Errors
/// `EAGAIN` at a limit of processes, `ENOMEM`.
pub unsafe fn fork() -> Result<Option<Pid>> {
    // SAFETY: no stack and no pointer is passed; the rest is passed on to the caller.
    let word = unsafe { syscall5(nr::CLONE, SIGCHLD_FLAG as usize, 0, 0, 0, 0) };
    Ok(match result(word)? {
        0 => None,
        pid => Some(Pid(pid as i32)),
    })
}

/// Starts `entry(argument)` in a new process on a stack of its own, with these clone `flags`
/// ([`CLONE_PIDFD`] is added). Returns the child's identifier and descriptor.
///
/// # Safety
/// `stack_top` must be the end of a stack, 16-byte aligned, that nobody else uses until the child
/// has executed a program or ended. With [`CLONE_VM`], `entry` runs beside the caller in the same
/// memory, with the caller's thread-local storage: it may only make system calls, and read what
/// nobody writes meanwhile.
///
/// # Errors
/// What `clone` reports.
pub unsafe fn clone_process(
    flags: u64,
    stack_top: *mut c_void,
    entry: unsafe extern "C" fn(*mut c_void) -> !,
    argument: *mut c_void,
) -> Result<(Pid, Fd)> {
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
