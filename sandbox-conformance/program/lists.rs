//! Lists of requests that no sandbox permits, from the headers of Linux 6.18, and not from the
//! filter's own tables.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::runtime::Errno;
use crate::runtime::process::exit;

use crate::call::close;
use crate::call_result::{CallResult, Denied, through};
use crate::forking::{child, reap};
use crate::kernel;

const SIGCHLD: usize = 17;
/// Bits that the kernel ignores in a 32-bit argument.
const HIGH: usize = 1 << 32;

const NAMESPACES: [(&str, usize); 8] = [
    ("cgroup", 0x0200_0000),
    ("ipc", 0x0800_0000),
    ("mount", 0x0002_0000),
    ("net", 0x4000_0000),
    ("pid", 0x2000_0000),
    ("time", NEW_TIME),
    ("user", NEW_USER),
    ("uts", 0x0400_0000),
];
const NEW_USER: usize = 0x1000_0000;
/// A part of the exit signal for `clone`, which therefore makes no such namespace.
const NEW_TIME: usize = 0x80;
/// Makes the child a sibling of its creator.
const PARENT: usize = 0x8000;

/// Runs a call in a child of its own, which ends with the call's error as its code.
fn in_child(call: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let pid = child(|| match call() {
        Ok(_) => exit(0),
        Err(error) => exit(error.0),
    })?;
    match reap(pid)? >> 8 {
        0 => Ok(0),
        code => Err(Errno(code)),
    }
}

/// Starts a child that ends at once.
fn cloned(flags: usize) -> Result<usize, Errno> {
    match kernel!(CLONE, flags | SIGCHLD, 0usize, 0usize, 0usize, 0usize)? {
        0 => exit(0),
        pid => Ok(pid),
    }
}

fn cloned_and_reaped(flags: usize) -> Result<usize, Errno> {
    cloned(flags).and_then(|pid| reap(pid).map(|_| 0))
}

fn cloned3(flags: usize) -> Result<usize, Errno> {
    let mut arguments = [0u64; 11];
    arguments[0] = flags as u64;
    arguments[4] = SIGCHLD as u64;
    match kernel!(CLONE3, arguments.as_slice(), 88usize)? {
        0 => exit(0),
        pid => reap(pid).map(|_| 0),
    }
}

/// Requests each namespace by `clone`, `clone3` and `unshare`, alone and with a user namespace, in
/// which any user may; and a child that is a sibling.
pub fn clone_flags() -> CallResult {
    let mut tries = Vec::new();
    for (name, flag) in NAMESPACES {
        for flags in [flag, flag | NEW_USER] {
            if flag != NEW_TIME {
                tries.push((format!("clone {name}"), cloned_and_reaped(flags)));
                tries.push((format!("high {name}"), cloned_and_reaped(flags | HIGH)));
            }
            tries.push((format!("clone3 {name}"), cloned3(flags)));
            let unshared = in_child(|| kernel!(UNSHARE, flags));
            tries.push((format!("unshare {name}"), unshared));
        }
    }
    // The child's sibling is a child of this process.
    let sibling = in_child(|| cloned(PARENT));
    if sibling.is_ok() {
        kernel!(WAIT4, -1, 0usize, 0usize, 0usize)?;
    }
    tries.push((String::from("clone parent"), sibling));
    through(tries)
}

/// Other personalities than Linux's own: other systems, executable memory, low addresses, old
/// layouts of addresses, other times and names.
const PERSONALITIES: [usize; 20] = [
    0x0002_0000, // UNAME26
    0x0008_0000, // FDPIC_FUNCPTRS
    0x0010_0000, // MMAP_PAGE_ZERO
    0x0020_0000, // ADDR_COMPAT_LAYOUT
    0x0040_0000, // READ_IMPLIES_EXEC
    0x0080_0000, // ADDR_LIMIT_32BIT
    0x0100_0000, // SHORT_INODE
    0x0200_0000, // WHOLE_SECONDS
    0x0400_0000, // STICKY_TIMEOUTS
    0x0800_0000, // ADDR_LIMIT_3GB
    0x0044_0000, // READ_IMPLIES_EXEC, ADDR_NO_RANDOMIZE
    0x0014_0000, // MMAP_PAGE_ZERO, ADDR_NO_RANDOMIZE
    0x0001,      // PER_SVR4
    0x0003,      // PER_SCOSVR3
    0x0006,      // PER_BSD, PER_SUNOS
    0x0008,      // PER_LINUX32
    0x000c,      // PER_RISCOS
    0x000d,      // PER_SOLARIS
    0x0010,      // PER_HPUX
    0x0040_0000 | HIGH,
];

pub fn personalities() -> CallResult {
    let set = |value: usize| in_child(|| kernel!(PERSONALITY, value));
    through(PERSONALITIES.map(|value| (format!("{value:#x}"), set(value))))
}

/// Attributes of a process that no sandbox needs. The kernel refuses the arguments, which are all
/// -1, so nothing changes where the option is let through.
pub fn attributes() -> CallResult {
    const OPTIONS: [usize; 26] = [
        5,  // PR_GET_UNALIGN
        6,  // PR_SET_UNALIGN
        9,  // PR_GET_FPEMU
        10, // PR_SET_FPEMU
        12, // PR_SET_FPEXC
        19, // PR_GET_ENDIAN
        20, // PR_SET_ENDIAN
        35, // PR_SET_MM
        43, // PR_MPX_ENABLE_MANAGEMENT
        44, // PR_MPX_DISABLE_MANAGEMENT
        45, // PR_SET_FP_MODE
        46, // PR_GET_FP_MODE
        57, // PR_SET_IO_FLUSHER
        58, // PR_GET_IO_FLUSHER
        59, // PR_SET_SYSCALL_USER_DISPATCH
        60, // PR_PAC_SET_ENABLED_KEYS
        61, // PR_PAC_GET_ENABLED_KEYS
        62, // PR_SCHED_CORE
        67, // PR_SET_MEMORY_MERGE
        68, // PR_GET_MEMORY_MERGE
        69, // PR_RISCV_V_SET_CONTROL
        71, // PR_RISCV_SET_ICACHE_FLUSH_CTX
        72, // PR_PPC_GET_DEXCR
        76, // PR_LOCK_SHADOW_STACK_STATUS
        77, // PR_TIMER_CREATE_RESTORE_IDS
        78, // PR_FUTEX_HASH
    ];
    /// Numbers that a later kernel may use.
    const LATER: core::ops::Range<usize> = 79..128;
    let options = OPTIONS.into_iter().chain(LATER);
    through(options.map(|option| {
        let answer = kernel!(PRCTL, option, -1, -1, -1, -1);
        // Any other answer shows that the kernel looked at the request.
        let answer = match answer {
            Err(error @ (Errno::EPERM | Errno::EACCES | Errno::ENOSYS)) => Err(error),
            _ => Ok(0),
        };
        (option.to_string(), answer)
    }))
}

/// Protocols of the Internet families except ICMP, TCP, UDP and raw, and those of netlink except
/// routes. Many load modules of the kernel.
pub fn protocols() -> CallResult {
    const CLOEXEC: usize = 0o2000000;
    const INTERNET: [usize; 2] = [2, 10];
    const NETLINK: usize = 16;
    const STREAM: usize = 1;
    const DATAGRAM: usize = 2;
    const RAW: usize = 3;
    const PACKETS: usize = 5;
    const DCCP: usize = 6;
    // Each may load a module, which takes long on slow machines.
    const WITH_MODULES: [(usize, usize); 7] = [
        (DCCP, 33),
        (DATAGRAM, 115), // L2TP
        (STREAM, 132),   // SCTP
        (PACKETS, 132),
        (DATAGRAM, 136), // UDP-Lite
        (STREAM, 256),   // SMC
        (STREAM, 262),   // MPTCP
    ];
    const RAW_ONLY: [usize; 16] = [
        2, 4, 8, 12, 22, 29, 41, 46, 47, 50, 51, 94, 103, 108, 115, 132,
    ];
    const OF_NETLINK: core::ops::RangeInclusive<usize> = 1..=22;
    let mut tries = Vec::new();
    let mut make = |family: usize, kind: usize, protocol: usize| {
        let made = kernel!(SOCKET, family, kind | CLOEXEC, protocol);
        tries.push((
            format!("{family}/{kind}/{protocol}"),
            made.inspect(|made| close(*made as i32)),
        ));
    };
    for family in INTERNET {
        for (kind, protocol) in WITH_MODULES {
            make(family, kind, protocol);
        }
        for protocol in RAW_ONLY {
            make(family, RAW, protocol);
        }
    }
    for protocol in OF_NETLINK {
        make(NETLINK, RAW, protocol);
    }
    through(tries)
}

/// Limits of resources: the most that a sandbox with every default grants.
const LIMITS: [(&str, usize, usize); 6] = [
    // One byte, less than any core file. The kernel starts a crash helper for every other value.
    ("core", 4, 1),
    ("open files", 7, 1024),
    ("locked memory", 8, 64 << 10),
    ("message queues", 12, 819_200),
    ("priority", 13, 0),
    ("real-time priority", 14, 0),
];
const PROCESSES: usize = 6;
const NO_LIMIT: usize = usize::MAX;

/// The limits that are higher than that, and those that this process can raise.
pub fn resource_limits() -> CallResult {
    let mut found = Vec::new();
    let limits = LIMITS
        .into_iter()
        .chain([("processes", PROCESSES, NO_LIMIT)]);
    for (name, resource, most) in limits {
        let mut limit = [0usize; 2];
        kernel!(PRLIMIT64, 0usize, resource, 0usize, limit.as_mut_slice())?;
        if limit[0].max(limit[1]) > most {
            found.push(format!("{name}={}/{}", limit[0], limit[1]));
        }
        if limit[1] == NO_LIMIT {
            continue;
        }
        let higher = [limit[0], limit[1] + 1];
        if kernel!(PRLIMIT64, 0usize, resource, higher.as_slice(), 0usize).is_ok() {
            found.push(format!("{name} raised"));
        }
    }
    match found.is_empty() {
        true => Err(Denied::Word("bounded")),
        false => Ok(found.join(",")),
    }
}

/// The umask, in octal digits.
pub fn umask() -> CallResult {
    Ok(format!("{:03o}", kernel!(UMASK, 0usize)?))
}
