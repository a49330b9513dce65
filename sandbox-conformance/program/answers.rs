//! The kernel's answers to calls that no sandbox permits, and to those that programs use instead.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::call::{AT_FDCWD, O_CREAT, O_RDONLY, O_WRONLY, close, open, own_pid, unlink};
use crate::call_result::CallResult;
use crate::kernel;

const F_SETLEASE: usize = 1024;
const F_NOTIFY: usize = 1026;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MAP_HUGETLB: usize = 0x4_0000;
const MFD_HUGETLB: usize = 4;
const SHM_HUGETLB: usize = 0o4000;
const IPC_CREAT: usize = 0o1000;
const PR_SET_IO_FLUSHER: usize = 57;
const PR_GET_NAME: usize = 16;

/// Requests of files, with a name each. On descriptor -1 they do nothing.
const REQUESTS: [(&str, usize); 13] = [
    ("TIOCSTI", 0x5412),
    ("TIOCSETD", 0x5423),
    ("FS_IOC_SETFLAGS", 0x4008_6602),
    ("FS_IOC_FSSETXATTR", 0x401c_5820),
    ("BTRFS_IOC_SNAP_CREATE_V2", 0x5000_9417),
    ("FS_IOC_ADD_ENCRYPTION_KEY", 0xc050_6617),
    ("FS_IOC_ENABLE_VERITY", 0x4080_6685),
    ("FS_IOC_GETFLAGS", 0x8008_6601),
    ("FS_IOC_FIEMAP", 0xc020_660b),
    ("FICLONE", 0x4004_9409),
    ("TCGETS", 0x5401),
    ("FIONREAD", 0x541b),
    ("SIOCGIFCONF", 0x8912),
];

/// Makes each call, in a folder of its own, and tells the answers: `chmod=EPERM,inotify=ok`.
pub fn documented(folder: &CStr) -> CallResult {
    kernel!(MKDIRAT, AT_FDCWD, folder, 0o755usize)?;
    kernel!(CHDIR, folder)?;
    let mut answers: Vec<String> = Vec::new();
    let mut tell = |name: &str, answer: Result<usize, Errno>| {
        let answer = answer.map_or_else(|error| error.to_string(), |_| String::from("ok"));
        answers.push(format!("{name}={answer}"));
    };
    let file = open(c"file", O_WRONLY | O_CREAT)?;
    for (name, mode) in [("set-group-id", 0o2755), ("set-user-id", 0o4755)] {
        let name = |call: &str| format!("{call} {name}");
        tell(&name("fchmod"), kernel!(FCHMOD, file, mode));
        tell(
            &name("fchmodat"),
            kernel!(FCHMODAT, AT_FDCWD, c"file", mode),
        );
        tell(&name("folder"), kernel!(FCHMODAT, AT_FDCWD, c".", mode));
        let made = kernel!(OPENAT, AT_FDCWD, c"new", O_WRONLY | O_CREAT, mode);
        tell(&name("new file"), made);
        unlink(c"new");
    }
    tell("chmod", kernel!(FCHMOD, file, 0o1711usize));
    for (name, request) in REQUESTS {
        tell(name, kernel!(IOCTL, -1, request, 0usize));
    }
    tell("lease", kernel!(FCNTL, file, F_SETLEASE, 1usize));
    let here = open(c".", O_RDONLY)?;
    tell("notify", kernel!(FCNTL, here, F_NOTIFY, 4usize));
    tell("inotify", kernel!(INOTIFY_INIT1, 0usize));
    memory(&mut tell);
    let own = own_pid();
    let parameter = [0i32];
    tell(
        "priority by number",
        kernel!(SETPRIORITY, 0usize, own, 19usize),
    );
    let class = |class: usize| kernel!(SCHED_SETSCHEDULER, own, class, parameter.as_slice());
    tell("class by number", class(5));
    tell("default class by number", class(0));
    let prctl =
        |option: usize, pointer: usize| kernel!(PRCTL, option, pointer, 0usize, 0usize, 0usize);
    tell("prctl beyond the list", prctl(PR_SET_IO_FLUSHER, 0));
    let mut name = [0u8; 16];
    tell(
        "prctl of the list",
        prctl(PR_GET_NAME, name.as_mut_ptr() as usize),
    );
    tell("clone3", kernel!(CLONE3, 0usize, 0usize));
    let how = [0u64; 3];
    let opened = kernel!(OPENAT2, AT_FDCWD, c".", how.as_slice(), 24usize);
    tell("openat2", opened);
    let mut parameters = [0u32; 30];
    let ring = kernel!(IO_URING_SETUP, 2usize, parameters.as_mut_slice());
    tell("io_uring", ring);
    close(file);
    unlink(c"file");
    const AT_REMOVEDIR: usize = 0x200;
    kernel!(UNLINKAT, AT_FDCWD, folder, AT_REMOVEDIR)?;
    Ok(answers.join(","))
}

/// Huge pages in each way, and policies of nodes.
fn memory(tell: &mut dyn FnMut(&str, Result<usize, Errno>)) {
    const LENGTH: usize = 2 << 20;
    const READ_AND_WRITE: usize = 3;
    let map = |flags: usize| {
        let flags = MAP_PRIVATE_ANONYMOUS | flags;
        kernel!(MMAP, 0usize, LENGTH, READ_AND_WRITE, flags, -1, 0usize)
    };
    tell("huge pages", map(MAP_HUGETLB));
    tell("ordinary pages", map(0));
    tell("huge file", kernel!(MEMFD_CREATE, c"huge", MFD_HUGETLB));
    tell("ordinary file", kernel!(MEMFD_CREATE, c"file", 0usize));
    let flags = SHM_HUGETLB | IPC_CREAT | 0o600;
    let segment = kernel!(SHMGET, 0usize, LENGTH, flags);
    if let Ok(segment) = segment {
        // A segment outlives its creator.
        let _ = kernel!(SHMCTL, segment, 0usize, 0usize);
    }
    tell("huge segment", segment);
    let policy = kernel!(SET_MEMPOLICY, 0usize, 0usize, 0usize);
    tell("policy of nodes", policy);
}
