//! Rules that protect an agent with the same user as code.
//!
//! The agent is non-dumpable, so the kernel denies code access to its memory, descriptors and
//! `/proc` files. Signals only require the same user, hence these rules. The agent's limits and
//! priorities are protected in all modes; see `peers`.
//!
//! A filter does not know the process IDs of supervisors, and cannot see the target of
//! `F_SETOWN_EX` and similar signals, which is behind a pointer. Process 1 of a PID namespace
//! receives no signals from inside that it does not handle, not even `SIGKILL`. Supervisors are
//! protected by the scope of Landlock's ABI 6.

use crate::seccomp::{Argument, Bits, Condition, Errno, Rule, Syscall};

fn int(argument: Argument) -> Bits {
    Condition::int(argument)
}

pub(super) fn rules(agent: u32) -> Vec<Rule> {
    let process = u64::from(agent);
    let group = u64::from(agent.wrapping_neg());
    // The number for all processes. The kernel excludes process 1, but not supervisors of the same
    // user.
    const ALL_PROCESSES: u64 = 0xffff_ffff;
    let refuse = |syscall| Rule::refuse(syscall, Errno::EPERM);
    let mut targets = vec![process, ALL_PROCESSES];
    if group != ALL_PROCESSES {
        targets.push(group);
    }
    vec![
        refuse(Syscall::KILL).when(int(Argument::First).one_of(targets)),
        refuse(Syscall::TKILL).when(int(Argument::First).equals(process)),
        refuse(Syscall::TGKILL).when(int(Argument::First).equals(process)),
        refuse(Syscall::TGKILL).when(int(Argument::Second).equals(process)),
        refuse(Syscall::RT_SIGQUEUEINFO).when(int(Argument::First).equals(process)),
        refuse(Syscall::RT_TGSIGQUEUEINFO).when(int(Argument::First).equals(process)),
        refuse(Syscall::RT_TGSIGQUEUEINFO).when(int(Argument::Second).equals(process)),
        refuse(Syscall::PIDFD_OPEN).when(int(Argument::First).equals(process)),
        // The filter cannot see which process a descriptor refers to; a folder of /proc works, too.
        // Runtimes fall back to kill.
        Rule::refuse(Syscall::PIDFD_SEND_SIGNAL, Errno::ENOSYS),
    ]
}
