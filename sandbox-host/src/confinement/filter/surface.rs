//! Kernel interfaces that no execution needs.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// Refused with `EPERM` for all arguments.
const NOT_PERMITTED: &[Syscall] = &[
    // Mounts and roots, with the old and the new interface.
    Syscall::CHROOT,
    Syscall::FSCONFIG,
    Syscall::FSMOUNT,
    Syscall::FSOPEN,
    Syscall::FSPICK,
    Syscall::MOUNT,
    Syscall::MOUNT_SETATTR,
    Syscall::MOVE_MOUNT,
    Syscall::OPEN_TREE,
    Syscall::OPEN_TREE_ATTR,
    Syscall::PIVOT_ROOT,
    Syscall::UMOUNT2,
    // Opening files by handle bypasses all folders in the path; name_to_handle_at returns handles.
    Syscall::NAME_TO_HANDLE_AT,
    Syscall::OPEN_BY_HANDLE_AT,
    // Accounting, quotas, watching whole file systems.
    Syscall::ACCT,
    Syscall::FANOTIFY_INIT,
    Syscall::FANOTIFY_MARK,
    Syscall::QUOTACTL,
    Syscall::QUOTACTL_FD,
    Syscall::SWAPOFF,
    Syscall::SWAPON,
    // Code in the kernel, replacing the kernel, its log.
    Syscall::BPF,
    Syscall::CREATE_MODULE,
    Syscall::DELETE_MODULE,
    Syscall::FINIT_MODULE,
    Syscall::GET_KERNEL_SYMS,
    Syscall::INIT_MODULE,
    Syscall::KEXEC_FILE_LOAD,
    Syscall::KEXEC_LOAD,
    Syscall::LOOKUP_DCOOKIE,
    Syscall::NFSSERVCTL,
    Syscall::PERF_EVENT_OPEN,
    Syscall::QUERY_MODULE,
    Syscall::REBOOT,
    Syscall::SYSCTL,
    Syscall::SYSLOG,
    Syscall::USELIB,
    // Pauses the kernel in the middle of copying from user memory, which makes race conditions
    // exploitable.
    Syscall::USERFAULTFD,
    // Key rings belong to users, not to namespaces.
    Syscall::ADD_KEY,
    Syscall::KEYCTL,
    Syscall::REQUEST_KEY,
    // The machine's clocks, names and terminals.
    Syscall::ADJTIMEX,
    Syscall::CLOCK_ADJTIME,
    Syscall::CLOCK_SETTIME,
    Syscall::SETDOMAINNAME,
    Syscall::SETHOSTNAME,
    Syscall::SETTIMEOFDAY,
    Syscall::VHANGUP,
    // The label of the process for AppArmor or SELinux.
    Syscall::LSM_SET_SELF_ATTR,
    // x86: I/O ports, segments.
    Syscall::IOPERM,
    Syscall::IOPL,
    Syscall::MODIFY_LDT,
    // The policy is behind a pointer; sched_setscheduler sets the same and is checked.
    Syscall::SCHED_SETATTR,
];

/// Refused with `ENOSYS`, as by a kernel without them.
const MISSING: &[Syscall] = &[
    // Sets flags of files, as a refused ioctl does.
    Syscall::FILE_SETATTR,
    Syscall::IO_URING_ENTER,
    Syscall::IO_URING_REGISTER,
    Syscall::IO_URING_SETUP,
    Syscall::MEMFD_SECRET,
    // The mode of a new file is behind a pointer; see `files`. Programs fall back to openat, as on
    // kernels before 5.6.
    Syscall::OPENAT2,
    // Lists of mounts; programs fall back to /proc/self/mountinfo.
    Syscall::LISTMOUNT,
    Syscall::STATMOUNT,
];

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    rules.extend(
        NOT_PERMITTED
            .iter()
            .map(|syscall| Rule::refuse(*syscall, Errno::EPERM)),
    );
    rules.extend(
        MISSING
            .iter()
            .map(|syscall| Rule::refuse(*syscall, Errno::ENOSYS)),
    );
    rules.push(personalities());
    rules.push(real_time());
    rules
}

/// Allows the Linux personality, the query of it, and disabling address space randomization, with
/// which debuggers, sanitizers and some Lisps restart themselves and which affects only the process
/// itself. Other personalities make memory executable or enable old interfaces.
fn personalities() -> Rule {
    const PER_LINUX: u64 = 0;
    const QUESTION: u64 = 0xffff_ffff;
    const ADDR_NO_RANDOMIZE: u64 = 0x0004_0000;
    let known = Condition::int(Argument::First).none_of([PER_LINUX, QUESTION, ADDR_NO_RANDOMIZE]);
    Rule::refuse(Syscall::PERSONALITY, Errno::EPERM).when(known)
}

/// Only the normal scheduling classes: FIFO, round robin, deadline and future classes can occupy a
/// processor forever. The flag to reset on fork is allowed with all.
fn real_time() -> Rule {
    const SCHED_OTHER: u64 = 0;
    const SCHED_BATCH: u64 = 3;
    const SCHED_IDLE: u64 = 5;
    const SCHED_RESET_ON_FORK: u64 = 0x4000_0000;
    let policy = Condition::masked(Argument::Second, 0xffff_ffff & !SCHED_RESET_ON_FORK);
    Rule::refuse(Syscall::SCHED_SETSCHEDULER, Errno::EPERM).when(policy.none_of([
        SCHED_OTHER,
        SCHED_BATCH,
        SCHED_IDLE,
    ]))
}
