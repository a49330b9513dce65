//! What is attempted under a filter. Each attempt fails without harm where nothing refuses it.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null;

use libc::{c_long, syscall};

/// No process and no user has this number.
const NOBODY: c_long = 0x7fff_fff0;

/// Makes the attempts of a set and prints what became of them.
pub fn run(set: &str) {
    // The test harness has begun a line.
    println!();
    match set {
        "nothing" => {}
        "surface" => surface(),
        "processes" => processes(),
        "agent" => agent(),
        "host" => host(),
        #[cfg(target_arch = "x86_64")]
        "int 0x80" => getpid_of_the_32_bit_interface(),
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
    // SAFETY: addresses are null, or of strings and records that live on; the kernel checks all of them.
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
    schedulers();
    sockets();
    internet_sockets();
    starts();
    // Last, since without a filter it succeeds and changes who this process is; it fails where threads are running.
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
    let limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let parameters = libc::sched_param { sched_priority: 0 };
    let (parameters, nothing) = (&raw const parameters, null::<u8>());
    let core = c_long::from(libc::RLIMIT_CORE);
    // SAFETY: signals are number 0, which sends nothing; addresses are null or of the records above.
    unsafe {
        report("kill of process 1", syscall(libc::SYS_kill, 1, 0));
        report("kill of everybody", syscall(libc::SYS_kill, -1, 0));
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
        report(
            "limits of another set",
            syscall(libc::SYS_prlimit64, NOBODY, core, &raw const limit, nothing),
        );
        report(
            "own limits set",
            syscall(libc::SYS_prlimit64, 0, core, &raw const limit, nothing),
        );
        report(
            "own limits by number read",
            syscall(libc::SYS_prlimit64, own, core, nothing, nothing),
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
    report_result("/bin/true", true_program());
}

fn host() {
    sockets();
    starts();
}

fn files(folder: &std::path::Path) {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    let make = |name: &str, kind: libc::mode_t| {
        let path: PathBuf = folder.join(name);
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path");
        // SAFETY: the path is a string that lives on.
        unsafe { libc::mknod(path.as_ptr(), kind | 0o600, libc::makedev(1, 3)) }
    };
    report("mknod of a device", make("device", libc::S_IFCHR).into());
    report("mknod of a fifo", make("fifo", libc::S_IFIFO).into());
    let fifo = folder.join("fifo");
    for mode in [0o4755, 0o2755] {
        let changed = std::fs::set_permissions(&fifo, std::fs::Permissions::from_mode(mode));
        report_result(&format!("chmod {mode:o}"), changed);
    }
}

/// Makes a child that ends at once.
fn child(name: &str, flags: c_long) {
    // SAFETY: without a stack of its own and without CLONE_VM the child goes on in a copy of this process' memory, and does
    // nothing but end.
    let child = unsafe { syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    report(name, child);
    if child > 0 {
        // SAFETY: no status is asked for. A child beside this process is its parent's to wait for, so that none is found.
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
    // SAFETY: the addresses are of the bytes above. Standard input is no terminal.
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
    // A priority that the real-time classes do not have, so that nothing changes.
    let parameters = libc::sched_param { sched_priority: 0 };
    let set = |policy: i32| {
        // SAFETY: the record lives on.
        unsafe {
            syscall(
                libc::SYS_sched_setscheduler,
                0,
                policy,
                &raw const parameters,
            )
        }
    };
    report("scheduler FIFO", set(libc::SCHED_FIFO));
    report(
        "scheduler FIFO with reset on fork",
        set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK),
    );
    report("scheduler BATCH", set(libc::SCHED_BATCH));
}

/// What differs between namespaces of one's own and the host's.
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
    // SAFETY: no pointer is passed. The segment has a key of nobody else's, and goes with the mark to remove it.
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
