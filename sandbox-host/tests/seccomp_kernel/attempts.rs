//! System calls that are attempted under a filter. Without a filter, they fail or do no harm.

use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null;

use libc::{c_long, syscall};

/// A number that no process and no user has.
const NOBODY: c_long = 0x7fff_fff0;

/// Makes the attempts of a set and prints their results.
pub fn run(set: &str) {
    // The test harness has printed the start of a line.
    println!();
    match set {
        "nothing" => {}
        "surface" => surface(),
        "processes" => processes(),
        "agent" => agent(),
        "peers" => {
            peers();
            report_result("/bin/true", true_program());
        }
        "host" => host(),
        #[cfg(target_arch = "x86_64")]
        "int 0x80" => getpid_of_the_32_bit_interface(),
        crate::measure::SET => crate::measure::run(),
        _ => panic!("no attempts {set}"),
    }
}

fn report(name: &str, result: c_long) {
    let errno = if result < 0 {
        io::Error::last_os_error().raw_os_error()
    } else {
        Some(0)
    };
    println!("attempt {name} = {}", errno.expect("an error number"));
}

fn report_result<T>(name: &str, result: io::Result<T>) {
    let errno = result.map_or_else(
        |error| error.raw_os_error().expect("an error number"),
        |_| 0,
    );
    println!("attempt {name} = {errno}");
}

fn surface() {
    let folder = std::env::temp_dir().join(format!("sandbox-host-filter-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder for files");
    files(&folder);
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
    let flags = |flags: i32| c_long::from(flags | libc::SIGCHLD);
    child("clone into a user namespace", flags(libc::CLONE_NEWUSER));
    child("clone beside the parent", flags(libc::CLONE_PARENT));
    clone3();
    // SAFETY: addresses are null, or of strings and records that live on; the kernel checks all of
    // them.
    unsafe {
        report(
            "mount",
            syscall(
                libc::SYS_mount,
                null::<u8>(),
                null::<u8>(),
                null::<u8>(),
                0,
                0,
            ),
        );
        report(
            "fsopen",
            syscall(libc::SYS_fsopen, c"no such file system".as_ptr(), 0),
        );
        report(
            "io_uring_setup",
            syscall(libc::SYS_io_uring_setup, 0, null::<u8>()),
        );
        report("keyctl", syscall(libc::SYS_keyctl, NOBODY, 0, 0, 0, 0));
        report(
            "ptrace",
            syscall(libc::SYS_ptrace, libc::PTRACE_ATTACH, NOBODY, 0, 0),
        );
        report("call 5000", syscall(5000));
        report("call getpid of x32", syscall(0x4000_0000 | 39));
        report(
            "personality READ_IMPLIES_EXEC",
            syscall(libc::SYS_personality, 0x0040_0000),
        );
        report(
            "personality question",
            syscall(libc::SYS_personality, 0xffff_ffff_u32),
        );
    }
    terminals();
    memory();
    core_files();
    pipes();
    requests();
    attributes();
    schedulers();
    sockets();
    internet_sockets();
    starts();
    // The last attempt, because without a filter it changes this process. With threads it fails.
    // SAFETY: no pointer is passed.
    report("unshare of a user namespace", unsafe {
        syscall(libc::SYS_unshare, libc::CLONE_NEWUSER)
    });
}

fn processes() {
    child("fork", c_long::from(libc::SIGCHLD));
    child("vfork", c_long::from(libc::CLONE_VFORK | libc::SIGCHLD));
    clone3();
    starts();
}

fn agent() {
    let own = c_long::from(std::process::id());
    // SAFETY: gettid takes nothing.
    let thread = unsafe { syscall(libc::SYS_gettid) };
    let nothing = null::<u8>();
    // SAFETY: signals are number 0, which sends nothing; addresses are null.
    unsafe {
        report("kill of process 1", syscall(libc::SYS_kill, 1, 0));
        report("kill of all processes", syscall(libc::SYS_kill, -1, 0));
        report("kill of itself", syscall(libc::SYS_kill, own, 0));
        report("tgkill of process 1", syscall(libc::SYS_tgkill, 1, 1, 0));
        report(
            "tgkill of itself",
            syscall(libc::SYS_tgkill, own, thread, 0),
        );
        report(
            "pidfd_open of process 1",
            syscall(libc::SYS_pidfd_open, 1, 0),
        );
        report(
            "pidfd_open of itself",
            syscall(libc::SYS_pidfd_open, own, 0),
        );
        report(
            "pidfd_send_signal",
            syscall(libc::SYS_pidfd_send_signal, -1, 0, nothing, 0),
        );
    }
    peers();
    report_result("/bin/true", true_program());
}

fn core_files() {
    let limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let (core, nothing) = (c_long::from(libc::RLIMIT_CORE), null::<u8>());
    // SAFETY: addresses are null or of the record above.
    unsafe {
        report(
            "limit of core files by prlimit",
            syscall(libc::SYS_prlimit64, 0, core, &raw const limit, nothing),
        );
        #[cfg(target_arch = "x86_64")]
        report(
            "limit of core files by setrlimit",
            syscall(libc::SYS_setrlimit, core, &raw const limit),
        );
        report(
            "limit of core files read",
            syscall(libc::SYS_prlimit64, 0, core, nothing, nothing),
        );
    }
}

fn pipes() {
    let (reading, writing) = io::pipe().expect("a pipe");
    for (name, size) in [
        ("pipe of a page", 4096),
        ("pipe of the usual size", 0x1_0000),
        ("pipe a byte larger", 0x1_0001),
        ("pipe twice as large", 0x2_0000),
    ] {
        // SAFETY: no pointer is passed.
        let set = unsafe { libc::fcntl(reading.as_raw_fd(), libc::F_SETPIPE_SZ, size) };
        report(name, c_long::from(set.min(0)));
    }
    drop(writing);
}

fn peers() {
    let own = c_long::from(std::process::id());
    let limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let parameters = libc::sched_param { sched_priority: 0 };
    let (parameters, nothing) = (&raw const parameters, null::<u8>());
    let nice = c_long::from(libc::RLIMIT_NICE);
    // SAFETY: addresses are null or of the records above.
    unsafe {
        report(
            "limits of another set",
            syscall(libc::SYS_prlimit64, NOBODY, nice, &raw const limit, nothing),
        );
        report(
            "own limits set",
            syscall(libc::SYS_prlimit64, 0, nice, &raw const limit, nothing),
        );
        report(
            "own limits by number read",
            syscall(libc::SYS_prlimit64, own, nice, nothing, nothing),
        );
        report(
            "affinity of another",
            syscall(libc::SYS_sched_setaffinity, NOBODY, 0, nothing),
        );
        report(
            "scheduling of another",
            syscall(libc::SYS_sched_setparam, NOBODY, parameters),
        );
        report(
            "priority of another",
            syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, NOBODY, 19),
        );
        report(
            "priority of a user",
            syscall(libc::SYS_setpriority, libc::PRIO_USER, NOBODY, 19),
        );
        report(
            "own priority",
            syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, 19),
        );
        let name = "input and output priority of another";
        report(name, syscall(libc::SYS_ioprio_set, 1, NOBODY, 0));
    }
}

fn host() {
    sockets();
    starts();
}

/// Without a filter, these fail or reserve nothing if the host has no free huge pages.
fn memory() {
    let huge = |name, flags: i32| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: a new mapping that nothing else uses and nothing is written to.
        let mapped = unsafe { syscall(libc::SYS_mmap, 0, 2 << 20, 0, flags, -1, 0) };
        report(name, mapped.min(0));
    };
    huge("mapping", 0);
    huge("mapping of huge pages", libc::MAP_HUGETLB);
    let file = |name, flags: u32| {
        // SAFETY: the name is a string that outlives the call.
        let made = unsafe { syscall(libc::SYS_memfd_create, c"attempt".as_ptr(), flags) };
        report(name, made.min(0));
    };
    file("file in memory", 0);
    file("file in huge pages", libc::MFD_HUGETLB);
}

/// With an invalid descriptor, so that the kernel's own error is `EBADF`.
fn requests() {
    for (name, request) in [
        ("btrfs: snapshot", 0x5000_9417),
        ("btrfs: new subvolume", 0x5000_9418),
        ("flags of a file set", 0x4008_6602),
        ("flags of a file read", 0x8008_6601),
        ("clone of a file", 0x4004_9409),
        ("count of bytes to read", libc::FIONREAD as c_long),
        // What `openpty` needs: TIOCSPTLCK, TIOCGPTN, TIOCGPTPEER.
        ("terminal unlocked", 0x4004_5431),
        ("number of a terminal", 0x8004_5430),
        ("end of a terminal opened", 0x5441),
        ("controlling terminal", libc::TIOCSCTTY as c_long),
    ] {
        // SAFETY: the kernel looks for the file first, and there is none.
        let asked = unsafe { syscall(libc::SYS_ioctl, -1, request, null::<u8>()) };
        report(name, asked);
    }
}

fn attributes() {
    const CORE_SCHEDULING: i32 = 62;
    let mut cookie = 0_u64;
    // SAFETY: the kernel writes one number; the name is a string that outlives the call.
    unsafe {
        let cookie = &raw mut cookie;
        let asked = syscall(libc::SYS_prctl, CORE_SCHEDULING, 0, 0, 0, cookie);
        report("core scheduling", asked);
        let named = syscall(libc::SYS_prctl, libc::PR_SET_NAME, c"attempt".as_ptr());
        report("name of a thread", named);
        let nothing = null::<u8>();
        let moved = syscall(libc::SYS_move_pages, 0, 0, nothing, nothing, nothing, 0);
        report("move pages", moved);
    }
}

fn files(folder: &std::path::Path) {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    let make = |name: &str, kind: libc::mode_t| {
        let path: PathBuf = folder.join(name);
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path");
        // SAFETY: the path is a string that outlives the call.
        unsafe { libc::mknod(path.as_ptr(), kind | 0o600, libc::makedev(1, 3)) }
    };
    report("mknod of a device", make("device", libc::S_IFCHR).into());
    report("mknod of a fifo", make("fifo", libc::S_IFIFO).into());
    let fifo = folder.join("fifo");
    for mode in [0o4755, 0o2755] {
        let changed = std::fs::set_permissions(&fifo, std::fs::Permissions::from_mode(mode));
        report_result(&format!("chmod {mode:o}"), changed);
    }
    let path = |name: &str| {
        let path: PathBuf = folder.join(name);
        std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path")
    };
    let (marked, plain, moved) = (path("marked"), path("plain"), path("moved"));
    let make = libc::O_CREAT | libc::O_WRONLY;
    // SAFETY: the paths are strings that live on; the record of openat2 has no bytes, which the
    // kernel refuses.
    unsafe {
        let here = libc::AT_FDCWD;
        let marked = syscall(libc::SYS_openat, here, marked.as_ptr(), make, 0o6755);
        report("new file with set-user-id", marked.min(0));
        let file = syscall(libc::SYS_openat, here, plain.as_ptr(), make, 0o755);
        report("new file", file.min(0));
        // The kernel ignores the mode unless the call creates a file.
        let opened = syscall(libc::SYS_openat, here, plain.as_ptr(), 0, 0o6755);
        report("open with a mode", opened.min(0));
        let opened = syscall(libc::SYS_openat2, here, plain.as_ptr(), null::<u8>(), 0);
        report("openat2", opened);
        let lease = syscall(libc::SYS_fcntl, file, libc::F_SETLEASE, libc::F_WRLCK);
        report("lease", lease);
        let (from, to) = (plain.as_ptr(), moved.as_ptr());
        let whiteout = libc::RENAME_WHITEOUT;
        let moved = syscall(libc::SYS_renameat2, here, from, here, to, whiteout);
        report("rename that leaves a device", moved);
    }
}

/// Creates a child that ends at once.
fn child(name: &str, flags: c_long) {
    // SAFETY: without its own stack and without CLONE_VM the child runs in a copy of this process'
    // memory, and only ends.
    let child = unsafe { syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    report(name, child);
    if child > 0 {
        // SAFETY: no status is requested. A sibling of this process is not found, because its parent
        // waits for it.
        unsafe { libc::waitpid(child as i32, std::ptr::null_mut(), 0) };
    }
}

fn clone3() {
    // SAFETY: the kernel refuses a record of no bytes.
    report("clone3", unsafe {
        syscall(libc::SYS_clone3, null::<u8>(), 0)
    });
}

fn terminals() {
    let byte = b'x';
    let size = [0_u16; 4];
    let (byte, request) = (&raw const byte, libc::TIOCSTI as c_long);
    // SAFETY: the addresses are of the bytes above. Standard input is not a terminal.
    unsafe {
        report("terminal input", syscall(libc::SYS_ioctl, 0, request, byte));
        report(
            "terminal input with high bits",
            syscall(libc::SYS_ioctl, 0, request | 1 << 32, byte),
        );
        report(
            "terminal size",
            syscall(libc::SYS_ioctl, 0, libc::TIOCGWINSZ, &raw const size),
        );
    }
}

fn schedulers() {
    // Real-time classes have no such priority, so the call changes nothing.
    let parameters = libc::sched_param { sched_priority: 0 };
    let set_of = |thread: i32, policy: i32| {
        // SAFETY: the record outlives the call.
        unsafe {
            syscall(
                libc::SYS_sched_setscheduler,
                thread,
                policy,
                &raw const parameters,
            )
        }
    };
    let set = |policy: i32| set_of(0, policy);
    report("scheduler FIFO", set(libc::SCHED_FIFO));
    report(
        "scheduler FIFO with reset on fork",
        set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK),
    );
    report("scheduler BATCH", set(libc::SCHED_BATCH));
    // SAFETY: it has no arguments.
    let own = unsafe { libc::gettid() };
    report("scheduler BATCH by number", set_of(own, libc::SCHED_BATCH));
    report("scheduler OTHER by number", set_of(own, libc::SCHED_OTHER));
}

/// Attempts whose results differ between own namespaces and the host's.
fn sockets() {
    let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    report("socket AF_UNIX", socket(libc::AF_UNIX, stream, 0));
    report("socket AF_INET", socket(libc::AF_INET, stream, 0));
    report(
        "netlink ROUTE",
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
    );
    for (name, kind) in [
        ("pair of streams", stream),
        ("pair of datagrams", libc::SOCK_DGRAM),
    ] {
        let mut pair = [0; 2];
        // SAFETY: the kernel writes two numbers.
        let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) };
        report(name, made.into());
    }
    // SAFETY: no pointer is passed. The segment has a private key, and is removed with the mark.
    unsafe {
        let segment = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600);
        report("shared memory", segment.into());
        if segment >= 0 {
            libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}

fn internet_sockets() {
    const SCTP: i32 = 132;
    report(
        "socket AF_VSOCK",
        socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
    );
    report(
        "socket AF_ALG",
        socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    );
    report(
        "socket AF_PACKET",
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0),
    );
    report(
        "socket of SCTP",
        socket(libc::AF_INET, libc::SOCK_STREAM, SCTP),
    );
    let diagnosis = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG);
    report("netlink SOCK_DIAG", diagnosis);
}

fn socket(family: i32, kind: i32, protocol: i32) -> c_long {
    // SAFETY: no pointer is passed.
    unsafe { libc::socket(family, kind, protocol) }.into()
}

fn starts() {
    let thread = std::thread::Builder::new().spawn(|| ());
    report_result(
        "a thread",
        thread.map(|thread| thread.join().expect("the thread ends")),
    );
    report_result("/bin/true", true_program());
}

fn true_program() -> io::Result<()> {
    let status = Command::new("/bin/true").status()?;
    assert!(status.success(), "{status}");
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn getpid_of_the_32_bit_interface() {
    let mut number: u64 = 20;
    // SAFETY: getpid of the 32-bit interface takes nothing and changes no memory.
    unsafe { std::arch::asm!("int 0x80", inout("rax") number, options(nostack)) };
    assert_eq!(number, u64::from(std::process::id()));
}
