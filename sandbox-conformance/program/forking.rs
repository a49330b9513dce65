//! Calls that start another process or program.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::runtime::Errno;
use crate::runtime::process::exit;
use crate::runtime::syscall::{clone_onto, result};

use crate::ProbeArguments;
use crate::call::{O_RDONLY, close, nr, open, pause, write_all};
use crate::call_result::{CallResult, Denied, done};
use crate::kernel;

const SIGCHLD: usize = 17;
const SIGCONT: usize = 18;
const SIGSTOP: usize = 19;
const SIGKILL: usize = 9;
const PR_SET_PDEATHSIG: usize = 1;

/// Forks as fork(2) does. Returns 0 in the child.
pub fn copy() -> Result<usize, Errno> {
    // The program has one thread and passes no stack, so the child continues here with its own
    // memory.
    kernel!(CLONE, SIGCHLD, 0usize, 0usize, 0usize, 0usize)
}

/// Runs `act` in a child, which ends with code 7.
pub fn child(act: impl FnOnce()) -> Result<usize, Errno> {
    match copy()? {
        0 => {
            act();
            exit(7)
        }
        pid => Ok(pid),
    }
}

/// Waits for a child and returns its status as wait4(2) does.
pub fn reap(pid: usize) -> Result<i32, Errno> {
    let mut status = [0i32];
    loop {
        match kernel!(WAIT4, pid, status.as_mut_slice(), 0usize, 0usize) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(status[0]),
        }
    }
}

fn reaped(pid: usize) -> CallResult {
    match reap(pid)? {
        0x0700 => done(),
        _ => Err(Denied::Word("lost")),
    }
}

pub fn fork() -> CallResult {
    reaped(child(|| {})?)
}

unsafe extern "C" fn end_with_seven(_: *mut c_void) -> ! {
    exit(7)
}

/// A child that shares this process's memory, as with vfork(2).
pub fn vfork() -> CallResult {
    const CLONE_VM: usize = 0x100;
    const CLONE_VFORK: usize = 0x4000;
    let mut stack = vec![0u128; 1024];
    let arguments = [
        nr::CLONE,
        CLONE_VM | CLONE_VFORK | SIGCHLD,
        stack.as_mut_ptr_range().end as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the stack outlives the child, which only exits. CLONE_VFORK suspends this thread
    // until then.
    let word = unsafe { clone_onto(&arguments, end_with_seven, core::ptr::null_mut()) };
    reaped(result(word)?)
}

/// A child by clone3(2), whose arguments no filter can see.
pub fn clone3() -> CallResult {
    let mut arguments = [0u64; 11];
    arguments[4] = SIGCHLD as u64;
    match kernel!(CLONE3, arguments.as_slice(), 88usize)? {
        0 => exit(7),
        pid => reaped(pid),
    }
}

static THREAD_RAN: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn thread_main(_: *mut c_void) -> ! {
    THREAD_RAN.store(1, Ordering::SeqCst);
    loop {
        // Ends only the thread and does not return.
        let _ = kernel!(EXIT, 0usize);
    }
}

/// Starts a thread, which is not a process.
pub fn thread() -> CallResult {
    start_thread(thread_main, core::ptr::null_mut())?;
    for _ in 0..200 {
        if THREAD_RAN.load(Ordering::SeqCst) == 1 {
            return done();
        }
        pause(5);
    }
    Err(Denied::Word("never_ran"))
}

/// Runs `body` in another thread of this process. It must not allocate memory.
fn start_thread(
    body: unsafe extern "C" fn(*mut c_void) -> !,
    argument: *mut c_void,
) -> Result<(), Errno> {
    // VM, FS, FILES, SIGHAND, THREAD, SYSVSEM.
    const FLAGS: usize = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000;
    let stack = vec![0u128; 1024].leak();
    let arguments = [
        nr::CLONE,
        FLAGS,
        stack.as_mut_ptr_range().end as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the stack is never freed, and the bodies use no memory of this thread.
    let word = unsafe { clone_onto(&arguments, body, argument) };
    result(word).map(drop)
}

unsafe extern "C" fn exit_later(code: *mut c_void) -> ! {
    pause(100);
    exit(code as usize as i32)
}

/// Ends with this code in an unusual way: `thread` ends while its main thread waits, `main` ends its
/// main thread first, and `stopped` stops itself and is continued by a child.
pub fn end_oddly(way: &str, code: usize) -> CallResult {
    match way {
        "thread" => start_thread(exit_later, code as *mut c_void)?,
        "main" => {
            start_thread(exit_later, code as *mut c_void)?;
            // Ends this thread alone. The code is not the process's.
            kernel!(EXIT, 99usize)?;
        }
        "stopped" => {
            let parent = crate::call::own_pid();
            let continuing = child(|| {
                pause(200);
                // The parent exists until it reaps this child.
                let _ = kernel!(KILL, parent, SIGCONT);
            })?;
            kernel!(KILL, parent, SIGSTOP)?;
            reap(continuing)?;
            exit(code as i32)
        }
        _ => return Err(Denied::Word("nonsense")),
    }
    pause(5000);
    Err(Denied::Word("survived"))
}

fn pointers(words: &[&CStr]) -> Vec<*const c_char> {
    words
        .iter()
        .map(|word| word.as_ptr())
        .chain([core::ptr::null()])
        .collect()
}

/// Executes another program, or this one with other arguments.
pub fn execute(arguments: &ProbeArguments) -> CallResult {
    let words: Vec<&CStr> = (0..arguments.texts().count())
        .map(|index| arguments.path(index))
        .collect();
    let list = pointers(&words);
    let nothing = [core::ptr::null::<c_char>()];
    kernel!(
        EXECVE,
        arguments.path(0),
        list.as_slice(),
        nothing.as_slice()
    )?;
    Err(Denied::Word("lost"))
}

/// Executes a copy of this program in a memory file.
pub fn execute_memory(arguments: &ProbeArguments) -> CallResult {
    let own = open(arguments.program(), O_RDONLY)?;
    let memory = kernel!(MEMFD_CREATE, c"probe", 0usize)? as i32;
    let mut piece = vec![0u8; 65536];
    loop {
        match kernel!(READ, own, piece.as_mut_slice(), piece.len())? {
            0 => break,
            count => write_all(memory, &piece[..count]),
        }
    }
    close(own);
    let list = pointers(&[c"probe", c"alive"]);
    let nothing = [core::ptr::null::<c_char>()];
    let by_descriptor = kernel!(
        EXECVEAT,
        memory,
        c"",
        list.as_slice(),
        nothing.as_slice(),
        0x1000usize
    );
    let path = CString::new(format!("/proc/self/fd/{memory}")).map_err(|_| Errno::EINVAL)?;
    let by_path = kernel!(EXECVE, path.as_c_str(), list.as_slice(), nothing.as_slice());
    crate::call_result::any([by_descriptor, by_path])
}

/// Starts `count` children at the same time.
pub fn spawn(count: usize) -> CallResult {
    let parent = crate::call::own_pid();
    let mut children = Vec::new();
    let mut stopped = None;
    for _ in 0..count {
        let started = child(|| {
            // So that no child outlives a killed parent.
            let _ = kernel!(PRCTL, PR_SET_PDEATHSIG, SIGKILL, 0usize, 0usize, 0usize);
            if kernel!(GETPPID) == Ok(parent) {
                pause(10_000);
            }
        });
        match started {
            Ok(pid) => children.push(pid),
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
    }
    for pid in &children {
        // These are children of this process, and exist until they are reaped.
        let _ = kernel!(KILL, *pid, SIGKILL);
    }
    for pid in &children {
        reap(*pid)?;
    }
    match stopped {
        Some(error) => {
            write_all(2, format!("children={}\n", children.len()).as_bytes());
            Err(error.into())
        }
        None => done(),
    }
}
