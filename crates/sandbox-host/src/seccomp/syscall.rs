//! The system calls that rules name, with their numbers.

use std::fmt;

use super::Arch;

/// A system call by name, with its number on each architecture.
///
/// The constants hold what the confinement of executions speaks of; [`Syscall::new`] makes others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syscall {
    name: &'static str,
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl Syscall {
    /// A system call with its numbers; `None` where an architecture lacks it.
    #[must_use]
    pub const fn new(name: &'static str, x86_64: Option<u32>, aarch64: Option<u32>) -> Self {
        Self {
            name,
            x86_64,
            aarch64,
        }
    }

    /// The name in the kernel's tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The number on an architecture, where that has the call.
    #[must_use]
    pub const fn number(self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

impl fmt::Display for Syscall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

macro_rules! number {
    (none) => {
        None
    };
    ($number:literal) => {
        Some($number)
    };
}

macro_rules! syscalls {
    ($($constant:ident = $name:literal, $x86_64:tt, $aarch64:tt;)*) => {
        impl Syscall {
            $(
                #[doc = concat!("`", $name, "`.")]
                pub const $constant: Self =
                    Self::new($name, number!($x86_64), number!($aarch64));
            )*

            /// Every constant, by name.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

// Name, x86_64, aarch64.
syscalls! {
    SYSCTL = "_sysctl", 156, none;
    ACCT = "acct", 163, 89;
    ADD_KEY = "add_key", 248, 217;
    ADJTIMEX = "adjtimex", 159, 171;
    BIND = "bind", 49, 200;
    BPF = "bpf", 321, 280;
    CHMOD = "chmod", 90, none;
    CHROOT = "chroot", 161, 51;
    CLOCK_ADJTIME = "clock_adjtime", 305, 266;
    CLOCK_SETTIME = "clock_settime", 227, 112;
    CLONE = "clone", 56, 220;
    CLONE3 = "clone3", 435, 435;
    CONNECT = "connect", 42, 203;
    CREATE_MODULE = "create_module", 174, none;
    DELETE_MODULE = "delete_module", 176, 106;
    FANOTIFY_INIT = "fanotify_init", 300, 262;
    FCHMOD = "fchmod", 91, 52;
    FCHMODAT = "fchmodat", 268, 53;
    FCHMODAT2 = "fchmodat2", 452, 452;
    FINIT_MODULE = "finit_module", 313, 273;
    FORK = "fork", 57, none;
    FSCONFIG = "fsconfig", 431, 431;
    FSMOUNT = "fsmount", 432, 432;
    FSOPEN = "fsopen", 430, 430;
    FSPICK = "fspick", 433, 433;
    GET_KERNEL_SYMS = "get_kernel_syms", 177, none;
    INIT_MODULE = "init_module", 175, 105;
    IO_URING_ENTER = "io_uring_enter", 426, 426;
    IO_URING_REGISTER = "io_uring_register", 427, 427;
    IO_URING_SETUP = "io_uring_setup", 425, 425;
    IOCTL = "ioctl", 16, 29;
    IOPERM = "ioperm", 173, none;
    IOPL = "iopl", 172, none;
    IOPRIO_SET = "ioprio_set", 251, 30;
    KCMP = "kcmp", 312, 272;
    KEXEC_FILE_LOAD = "kexec_file_load", 320, 294;
    KEXEC_LOAD = "kexec_load", 246, 104;
    KEYCTL = "keyctl", 250, 219;
    KILL = "kill", 62, 129;
    LOOKUP_DCOOKIE = "lookup_dcookie", 212, 18;
    MEMFD_SECRET = "memfd_secret", 447, 447;
    MKNOD = "mknod", 133, none;
    MKNODAT = "mknodat", 259, 33;
    MODIFY_LDT = "modify_ldt", 154, none;
    MOUNT = "mount", 165, 40;
    MOUNT_SETATTR = "mount_setattr", 442, 442;
    MOVE_MOUNT = "move_mount", 429, 429;
    MQ_OPEN = "mq_open", 240, 180;
    MQ_UNLINK = "mq_unlink", 241, 181;
    MSGCTL = "msgctl", 71, 187;
    MSGGET = "msgget", 68, 186;
    MSGRCV = "msgrcv", 70, 188;
    MSGSND = "msgsnd", 69, 189;
    NAME_TO_HANDLE_AT = "name_to_handle_at", 303, 264;
    NFSSERVCTL = "nfsservctl", 180, 42;
    OPEN_BY_HANDLE_AT = "open_by_handle_at", 304, 265;
    OPEN_TREE = "open_tree", 428, 428;
    OPEN_TREE_ATTR = "open_tree_attr", 467, 467;
    PERF_EVENT_OPEN = "perf_event_open", 298, 241;
    PERSONALITY = "personality", 135, 92;
    PIDFD_GETFD = "pidfd_getfd", 438, 438;
    PIDFD_OPEN = "pidfd_open", 434, 434;
    PIDFD_SEND_SIGNAL = "pidfd_send_signal", 424, 424;
    PIVOT_ROOT = "pivot_root", 155, 41;
    PRLIMIT64 = "prlimit64", 302, 261;
    PROCESS_MADVISE = "process_madvise", 440, 440;
    PROCESS_VM_READV = "process_vm_readv", 310, 270;
    PROCESS_VM_WRITEV = "process_vm_writev", 311, 271;
    PTRACE = "ptrace", 101, 117;
    QUERY_MODULE = "query_module", 178, none;
    QUOTACTL = "quotactl", 179, 60;
    QUOTACTL_FD = "quotactl_fd", 443, 443;
    REBOOT = "reboot", 169, 142;
    REQUEST_KEY = "request_key", 249, 218;
    RT_SIGQUEUEINFO = "rt_sigqueueinfo", 129, 138;
    RT_TGSIGQUEUEINFO = "rt_tgsigqueueinfo", 297, 240;
    SCHED_SETAFFINITY = "sched_setaffinity", 203, 122;
    SCHED_SETATTR = "sched_setattr", 314, 274;
    SCHED_SETPARAM = "sched_setparam", 142, 118;
    SCHED_SETSCHEDULER = "sched_setscheduler", 144, 119;
    SEMCTL = "semctl", 66, 191;
    SEMGET = "semget", 64, 190;
    SEMOP = "semop", 65, 193;
    SEMTIMEDOP = "semtimedop", 220, 192;
    SETDOMAINNAME = "setdomainname", 171, 162;
    SETHOSTNAME = "sethostname", 170, 161;
    SETNS = "setns", 308, 268;
    SETPRIORITY = "setpriority", 141, 140;
    SETTIMEOFDAY = "settimeofday", 164, 170;
    SHMAT = "shmat", 30, 196;
    SHMCTL = "shmctl", 31, 195;
    SHMDT = "shmdt", 67, 197;
    SHMGET = "shmget", 29, 194;
    SOCKET = "socket", 41, 198;
    SOCKETPAIR = "socketpair", 53, 199;
    SWAPOFF = "swapoff", 168, 225;
    SWAPON = "swapon", 167, 224;
    SYSLOG = "syslog", 103, 116;
    TGKILL = "tgkill", 234, 131;
    TKILL = "tkill", 200, 130;
    UMOUNT2 = "umount2", 166, 39;
    UNSHARE = "unshare", 272, 97;
    USELIB = "uselib", 134, none;
    USERFAULTFD = "userfaultfd", 323, 282;
    VFORK = "vfork", 58, none;
    VHANGUP = "vhangup", 153, 58;
}
