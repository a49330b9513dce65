//! Creating processes and namespaces, and access to other processes.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// All `CLONE_NEW*` flags of `clone`: mount, cgroup, uts, ipc, user, pid, net. (The flag of time
/// namespaces shares its bit with the exit signal there; only `unshare` and `clone3` accept it.)
const NAMESPACES: u64 = 0x7e02_0000;
/// Makes the child a sibling of the caller, out of reach of the supervisor that kills the caller's
/// tree.
const CLONE_PARENT: u64 = 0x0000_8000;
const CLONE_THREAD: u64 = 0x0001_0000;

/// Other processes' namespaces, memory, registers and descriptors.
const NOT_PERMITTED: &[Syscall] = &[
    Syscall::KCMP,
    Syscall::PIDFD_GETFD,
    Syscall::PROCESS_MADVISE,
    Syscall::PROCESS_VM_READV,
    Syscall::PROCESS_VM_WRITEV,
    Syscall::PTRACE,
    Syscall::SETNS,
    Syscall::UNSHARE,
];

/// With `single`, the filter must refuse new processes, and the agent other programs.
pub(super) fn rules(single: bool) -> Vec<Rule> {
    let refuse = |syscall: &Syscall| Rule::refuse(*syscall, Errno::EPERM);
    let mut rules = NOT_PERMITTED.iter().map(refuse).collect::<Vec<_>>();
    // The flags are behind a pointer. C libraries fall back to clone, whose flags a filter sees.
    rules.push(Rule::refuse(Syscall::CLONE3, Errno::ENOSYS));
    let flags = |mask| Condition::masked(Argument::First, mask);
    rules.push(refuse(&Syscall::CLONE).when(flags(NAMESPACES | CLONE_PARENT).differs_from(0)));
    if single {
        // EPERM, since shells and language runtimes retry on EAGAIN.
        rules.push(refuse(&Syscall::CLONE).when(flags(CLONE_THREAD).equals(0)));
        rules.push(refuse(&Syscall::FORK));
        rules.push(refuse(&Syscall::VFORK));
    }
    rules
}
