//! Making processes and namespaces, and reaching into other processes.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// Every `CLONE_NEW*` flag that `clone` takes: mount, cgroup, uts, ipc, user, pid, net. (The one of time namespaces shares
/// its bit with the exit signal there, and counts for `unshare` and `clone3` only.)
const NAMESPACES: u64 = 0x7e02_0000;
/// The child becomes the caller's sibling: it would escape the supervisor that ends the caller's tree.
const CLONE_PARENT: u64 = 0x0000_8000;
const CLONE_THREAD: u64 = 0x0001_0000;

/// Namespaces of others, and other processes' memory, registers, descriptors.
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

/// `single`: neither another process nor, elsewhere, another program; and this filter has to see to it.
pub(super) fn rules(single: bool) -> Vec<Rule> {
    let refuse = |syscall: &Syscall| Rule::refuse(*syscall, Errno::EPERM);
    let mut rules = NOT_PERMITTED.iter().map(refuse).collect::<Vec<_>>();
    // Its flags are behind a pointer. C libraries fall back to clone, whose flags a filter sees.
    rules.push(Rule::refuse(Syscall::CLONE3, Errno::ENOSYS));
    let flags = |mask| Condition::masked(Argument::First, mask);
    rules.push(refuse(&Syscall::CLONE).when(flags(NAMESPACES | CLONE_PARENT).differs_from(0)));
    if single {
        // EPERM, since shells and language runtimes wait and try again on EAGAIN.
        rules.push(refuse(&Syscall::CLONE).when(flags(CLONE_THREAD).equals(0)));
        rules.push(refuse(&Syscall::FORK));
        rules.push(refuse(&Syscall::VFORK));
    }
    rules
}
