//! Calls that attack the kernel itself.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec;

use crate::runtime::Errno;

use crate::call::{O_NOCTTY, O_RDONLY, O_RDWR, close, open};
use crate::call_result::{CallResult, Denied, any, done};
use crate::kernel;

pub const CLONE_NEWUSER: usize = 0x1000_0000;
const CLONE_NEWUTS: usize = 0x0400_0000;

pub fn user_namespace() -> CallResult {
    kernel!(UNSHARE, CLONE_NEWUSER)?;
    done()
}

/// Creates an array map with one element.
pub fn bpf() -> CallResult {
    let mut attributes = [0u32; 32];
    attributes[..4].copy_from_slice(&[2, 4, 4, 1]);
    kernel!(BPF, 0usize, attributes.as_mut_slice(), 128usize)?;
    done()
}

/// Counts its own page faults in user mode, which hosts usually permit.
pub fn perf() -> CallResult {
    let mut attributes = [0u64; 16];
    attributes[0] = 1 | (128 << 32);
    attributes[1] = 2;
    // Excludes the kernel and the hypervisor.
    attributes[5] = 1 << 5 | 1 << 6;
    kernel!(
        PERF_EVENT_OPEN,
        attributes.as_mut_slice(),
        0usize,
        -1,
        -1,
        0usize
    )?;
    done()
}

/// Only for user-mode faults, which need no privilege.
pub fn userfaultfd() -> CallResult {
    kernel!(USERFAULTFD, 1usize)?;
    done()
}

/// Adds a key to the keyring of this process.
pub fn keyring() -> CallResult {
    kernel!(ADD_KEY, c"user", c"probe", b"x".as_slice(), 1usize, -2)?;
    done()
}

pub fn io_uring() -> CallResult {
    let mut parameters = [0u32; 30];
    kernel!(IO_URING_SETUP, 2usize, parameters.as_mut_slice())?;
    done()
}

/// Asks for first-in first-out scheduling at the lowest priority.
pub fn realtime() -> CallResult {
    let priority = [1i32];
    kernel!(SCHED_SETSCHEDULER, 0usize, 1usize, priority.as_slice())?;
    done()
}

/// Whether the kernel looks at the arguments. Without the privilege to load modules it does not.
fn looks_at_arguments(result: Result<usize, Errno>) -> Result<(), Errno> {
    match result {
        Err(error @ (Errno::EPERM | Errno::ENOSYS | Errno::EACCES)) => Err(error),
        _ => Ok(()),
    }
}

/// Loads an empty kernel module.
pub fn module() -> CallResult {
    any([
        looks_at_arguments(kernel!(FINIT_MODULE, -1, c"", 0usize)),
        looks_at_arguments(kernel!(INIT_MODULE, 0usize, 0usize, c"")),
    ])
}

/// Asks for huge pages by mapping, file and segment. A host without huge pages passes the check
/// too.
pub fn huge_pages() -> CallResult {
    const SIZE: usize = 2 << 20;
    const IPC_CREAT: usize = 0o1000;
    // Private, anonymous, huge.
    let mapped = kernel!(MMAP, 0usize, SIZE, 3usize, 0x4_0022usize, -1, 0usize);
    let file = kernel!(MEMFD_CREATE, c"probe", 4usize);
    let segment = kernel!(SHMGET, 0usize, SIZE, 0o4000 | IPC_CREAT | 0o600);
    if let Ok(segment) = segment {
        kernel!(SHMCTL, segment, 0usize, 0usize)?;
    }
    any([mapped, file, segment].map(looks_at_arguments))
}

/// Asks for process attributes with a wider effect: core scheduling, merged pages, dispatched
/// system calls.
pub fn attributes_of_process() -> CallResult {
    const SYSCALL_USER_DISPATCH: usize = 59;
    const SCHED_CORE: usize = 62;
    const GET_MEMORY_MERGE: usize = 68;
    let mut cookie = [0u64];
    let core = kernel!(
        PRCTL,
        SCHED_CORE,
        0usize,
        0usize,
        0usize,
        cookie.as_mut_slice()
    );
    let merged = kernel!(PRCTL, GET_MEMORY_MERGE, 0usize, 0usize, 0usize, 0usize);
    // Off, as before.
    let dispatch = kernel!(PRCTL, SYSCALL_USER_DISPATCH, 0usize, 0usize, 0usize, 0usize);
    any([core, merged, dispatch].map(looks_at_arguments))
}

/// Queries the memory policy, and moves no pages.
pub fn memory_policy() -> CallResult {
    let policy = kernel!(SET_MEMPOLICY, 0usize, 0usize, 0usize);
    let moved = kernel!(MOVE_PAGES, 0usize, 0usize, 0usize, 0usize, 0usize, 0usize);
    any([policy, moved].map(looks_at_arguments))
}

/// Reads the kernel's log.
pub fn kernel_log() -> CallResult {
    let mut buffer = vec![0u8; 4096];
    let by_call = kernel!(SYSLOG, 3usize, buffer.as_mut_slice(), buffer.len()).map(drop);
    any([by_call, open(c"/dev/kmsg", 0o4000).map(drop)])
}

/// Opens a new terminal, and makes it the controlling one: without a privilege, only that takes
/// some requests. Returns its end for programs.
pub fn new_terminal() -> Result<i32, Errno> {
    const TIOCSCTTY: usize = 0x540e;
    const TIOCSPTLCK: usize = 0x4004_5431;
    const TIOCGPTN: usize = 0x8004_5430;
    let master = open(c"/dev/ptmx", O_RDWR | O_NOCTTY)?;
    let unlocked = [0i32];
    kernel!(IOCTL, master, TIOCSPTLCK, unlocked.as_slice())?;
    let mut number = [0u32];
    kernel!(IOCTL, master, TIOCGPTN, number.as_mut_slice())?;
    let path = CString::new(format!("/dev/pts/{}", number[0])).map_err(|_| Errno::EINVAL)?;
    let terminal = open(&path, O_RDWR | O_NOCTTY)?;
    // The requests that need a controlling terminal show whether this succeeded.
    let _ = kernel!(SETSID);
    let _ = kernel!(IOCTL, terminal, TIOCSCTTY, 0usize);
    Ok(terminal)
}

/// Pushes a character into a terminal's input. `high` is or-ed into the upper half of the request,
/// which the kernel ignores and a careless filter compares.
pub fn terminal_input(high: usize) -> CallResult {
    const TIOCSTI: usize = 0x5412;
    // Without terminals, any other file shows whether the kernel sees the request.
    if open(c"/dev/ptmx", O_RDWR | O_NOCTTY).map(close).is_err() {
        let file = open(c"/", O_RDONLY)?;
        return match kernel!(IOCTL, file, TIOCSTI | high << 32, b"x".as_slice()) {
            Err(Errno::ENOTTY) => Ok("the kernel saw the request".into()),
            other => Ok(format!("{}", other?)),
        };
    }
    let terminal = new_terminal()?;
    kernel!(IOCTL, terminal, TIOCSTI | high << 32, b"x".as_slice())?;
    done()
}

/// Whether this program runs as another user than the one who started it.
pub fn changed_user() -> CallResult {
    let (real, effective) = (kernel!(GETUID)?, kernel!(GETEUID)?);
    let (group, effective_group) = (kernel!(GETGID)?, kernel!(GETEGID)?);
    if real == effective && group == effective_group {
        return Err(Denied::Word("unchanged"));
    }
    Ok(format!("{real}->{effective}"))
}

/// Sets the host name to its current value, if possible in a new namespace.
pub fn host_name() -> CallResult {
    // A failure is fine, because setting the same name changes nothing.
    if kernel!(UNSHARE, CLONE_NEWUTS).is_err() {
        let _ = kernel!(UNSHARE, CLONE_NEWUSER | CLONE_NEWUTS);
    }
    let mut names = [0u8; 390];
    kernel!(UNAME, names.as_mut_slice())?;
    let name = names[65..130]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or(&[]);
    kernel!(SETHOSTNAME, name, name.len())?;
    done()
}
