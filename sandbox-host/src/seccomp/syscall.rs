//! The system calls that rules name, with their numbers.

use std::fmt;

use sandbox_agent::syscall_numbers::{AARCH64, X86_64, number_in};

use super::Arch;

/// A system call's name and its number on each architecture.
///
/// The constants cover the rules of this crate; [`Syscall::new`] creates others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syscall {
    name: &'static str,
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl Syscall {
    /// A system call with these numbers; `None` if an architecture lacks it.
    #[must_use]
    pub const fn new(name: &'static str, x86_64: Option<u32>, aarch64: Option<u32>) -> Self {
        Self {
            name,
            x86_64,
            aarch64,
        }
    }

    /// A system call from the kernel's tables.
    const fn named(name: &'static str) -> Self {
        let (x86_64, aarch64) = (number_in(X86_64, name), number_in(AARCH64, name));
        assert!(x86_64.is_some() || aarch64.is_some(), "no such system call");
        Self::new(name, x86_64, aarch64)
    }

    /// The name in the kernel's tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The number on an architecture; `None` if it lacks the call.
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

macro_rules! syscalls {
    ($($constant:ident = $name:literal;)*) => {
        impl Syscall {
            $(
                #[doc = concat!("`", $name, "`.")]
                pub const $constant: Self = Self::named($name);
            )*

            /// Every constant, by name.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

syscalls! {
    SYSCTL = "_sysctl";
    ACCT = "acct";
    ADD_KEY = "add_key";
    ADJTIMEX = "adjtimex";
    BIND = "bind";
    BPF = "bpf";
    CHMOD = "chmod";
    CHROOT = "chroot";
    CLOCK_ADJTIME = "clock_adjtime";
    CLOCK_SETTIME = "clock_settime";
    CLONE = "clone";
    CLONE3 = "clone3";
    CONNECT = "connect";
    CREAT = "creat";
    CREATE_MODULE = "create_module";
    DELETE_MODULE = "delete_module";
    FANOTIFY_INIT = "fanotify_init";
    FANOTIFY_MARK = "fanotify_mark";
    FCHMOD = "fchmod";
    FCHMODAT = "fchmodat";
    FCHMODAT2 = "fchmodat2";
    FCNTL = "fcntl";
    FILE_SETATTR = "file_setattr";
    FINIT_MODULE = "finit_module";
    FORK = "fork";
    FSCONFIG = "fsconfig";
    FSMOUNT = "fsmount";
    FSOPEN = "fsopen";
    FSPICK = "fspick";
    GET_KERNEL_SYMS = "get_kernel_syms";
    GET_MEMPOLICY = "get_mempolicy";
    INIT_MODULE = "init_module";
    IO_URING_ENTER = "io_uring_enter";
    IO_URING_REGISTER = "io_uring_register";
    IO_URING_SETUP = "io_uring_setup";
    IOCTL = "ioctl";
    IOPERM = "ioperm";
    IOPL = "iopl";
    IOPRIO_SET = "ioprio_set";
    KCMP = "kcmp";
    KEXEC_FILE_LOAD = "kexec_file_load";
    KEXEC_LOAD = "kexec_load";
    KEYCTL = "keyctl";
    KILL = "kill";
    LISTMOUNT = "listmount";
    LOOKUP_DCOOKIE = "lookup_dcookie";
    LSM_SET_SELF_ATTR = "lsm_set_self_attr";
    MBIND = "mbind";
    MEMFD_CREATE = "memfd_create";
    MEMFD_SECRET = "memfd_secret";
    MIGRATE_PAGES = "migrate_pages";
    MKNOD = "mknod";
    MKNODAT = "mknodat";
    MMAP = "mmap";
    MODIFY_LDT = "modify_ldt";
    MOUNT = "mount";
    MOUNT_SETATTR = "mount_setattr";
    MOVE_MOUNT = "move_mount";
    MOVE_PAGES = "move_pages";
    MQ_OPEN = "mq_open";
    MQ_UNLINK = "mq_unlink";
    MSGCTL = "msgctl";
    MSGGET = "msgget";
    MSGRCV = "msgrcv";
    MSGSND = "msgsnd";
    NAME_TO_HANDLE_AT = "name_to_handle_at";
    NFSSERVCTL = "nfsservctl";
    OPEN = "open";
    OPEN_BY_HANDLE_AT = "open_by_handle_at";
    OPEN_TREE = "open_tree";
    OPEN_TREE_ATTR = "open_tree_attr";
    OPENAT = "openat";
    OPENAT2 = "openat2";
    PERF_EVENT_OPEN = "perf_event_open";
    PERSONALITY = "personality";
    PIDFD_GETFD = "pidfd_getfd";
    PIDFD_OPEN = "pidfd_open";
    PIDFD_SEND_SIGNAL = "pidfd_send_signal";
    PIVOT_ROOT = "pivot_root";
    PRCTL = "prctl";
    PRLIMIT64 = "prlimit64";
    PROCESS_MADVISE = "process_madvise";
    PROCESS_VM_READV = "process_vm_readv";
    PROCESS_VM_WRITEV = "process_vm_writev";
    PTRACE = "ptrace";
    QUERY_MODULE = "query_module";
    QUOTACTL = "quotactl";
    QUOTACTL_FD = "quotactl_fd";
    REBOOT = "reboot";
    RENAMEAT2 = "renameat2";
    REQUEST_KEY = "request_key";
    RT_SIGQUEUEINFO = "rt_sigqueueinfo";
    RT_TGSIGQUEUEINFO = "rt_tgsigqueueinfo";
    SCHED_SETAFFINITY = "sched_setaffinity";
    SCHED_SETATTR = "sched_setattr";
    SCHED_SETPARAM = "sched_setparam";
    SCHED_SETSCHEDULER = "sched_setscheduler";
    SEMCTL = "semctl";
    SEMGET = "semget";
    SEMOP = "semop";
    SEMTIMEDOP = "semtimedop";
    SET_MEMPOLICY = "set_mempolicy";
    SET_MEMPOLICY_HOME_NODE = "set_mempolicy_home_node";
    SETDOMAINNAME = "setdomainname";
    SETHOSTNAME = "sethostname";
    SETNS = "setns";
    SETPRIORITY = "setpriority";
    SETRLIMIT = "setrlimit";
    SETTIMEOFDAY = "settimeofday";
    SHMAT = "shmat";
    SHMCTL = "shmctl";
    SHMDT = "shmdt";
    SHMGET = "shmget";
    SOCKET = "socket";
    SOCKETPAIR = "socketpair";
    STATMOUNT = "statmount";
    SWAPOFF = "swapoff";
    SWAPON = "swapon";
    SYSFS = "sysfs";
    SYSLOG = "syslog";
    TGKILL = "tgkill";
    TKILL = "tkill";
    UMOUNT2 = "umount2";
    UNSHARE = "unshare";
    USELIB = "uselib";
    USERFAULTFD = "userfaultfd";
    USTAT = "ustat";
    VFORK = "vfork";
    VHANGUP = "vhangup";
}
