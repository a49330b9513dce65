//! The kernel surface that no execution needs.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// Refused with `EPERM`, whatever the arguments are.
const NOT_PERMITTED: &[Syscall] = &[
    // Mounts and roots, by the old interface and the new.
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
    // Files by handle pass every folder on the way; name_to_handle_at gives the handles away.
    Syscall::NAME_TO_HANDLE_AT,
    Syscall::OPEN_BY_HANDLE_AT,
    // Accounting, quotas, watching whole file systems.
    Syscall::ACCT,
    Syscall::FANOTIFY_INIT,
    Syscall::QUOTACTL,
    Syscall::QUOTACTL_FD,
    Syscall::SWAPOFF,
    Syscall::SWAPON,
    // Code in the kernel, the kernel itself, its log.
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
    // Stops the kernel in the middle of a copy from user memory, which turns its races into certainties.
    Syscall::USERFAULTFD,
    // Key rings belong to the user, not to a namespace.
    Syscall::ADD_KEY,
    Syscall::KEYCTL,
    Syscall::REQUEST_KEY,
    // Clocks, names, terminals of the machine.
    Syscall::ADJTIMEX,
    Syscall::CLOCK_ADJTIME,
    Syscall::CLOCK_SETTIME,
    Syscall::SETDOMAINNAME,
    Syscall::SETHOSTNAME,
    Syscall::SETTIMEOFDAY,
    Syscall::VHANGUP,
    // x86: ports, segments.
    Syscall::IOPERM,
    Syscall::IOPL,
    Syscall::MODIFY_LDT,
    // Its policy is behind a pointer, out of a filter's sight; sched_setscheduler says the same and is checked.
    Syscall::SCHED_SETATTR,
];

/// As in a kernel that was built without them.
const MISSING: &[Syscall] = &[
    Syscall::IO_URING_ENTER,
    Syscall::IO_URING_REGISTER,
    Syscall::IO_URING_SETUP,
    Syscall::MEMFD_SECRET,
    // The mode of a new file is behind a pointer; see `files`. Programs then use openat, as on kernels before 5.6.
    Syscall::OPENAT2,
    // What is mounted; programs read /proc/self/mountinfo instead.
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

/// Only Linux' own personality, the question which it is, and no address space randomization, with which debuggers,
/// sanitizers and some Lisps start themselves again and which concerns nobody else. Others make memory executable or revive
/// old interfaces.
fn personalities() -> Rule {
    const PER_LINUX: u64 = 0;
    const QUESTION: u64 = 0xffff_ffff;
    const ADDR_NO_RANDOMIZE: u64 = 0x0004_0000;
    let known = Condition::int(Argument::First).none_of([PER_LINUX, QUESTION, ADDR_NO_RANDOMIZE]);
    Rule::refuse(Syscall::PERSONALITY, Errno::EPERM).when(known)
}

/// Only the ordinary scheduling classes: first in, first out, round robin, deadline and what is to come can hold a processor
/// for good. The flag to reset on fork may stand with any.
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
