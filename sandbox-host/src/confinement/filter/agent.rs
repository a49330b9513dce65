//! What code of the agent's own user may not do to it.
//!
//! The agent is non-dumpable, so that the kernel denies code its memory, descriptors and files below `/proc`. Signals ask for
//! the same user only. Its limits and priorities are closed to every execution; see `peers`.
//!
//! What a filter cannot tell are the supervisors of executions, whose ids it does not know, and signals by way of
//! `F_SETOWN_EX` and its kin, whose target is behind a pointer. From inside, process 1 of a process namespace gets no signal
//! that it does not handle, not even `SIGKILL`; for supervisors the scope of Landlock's ABI 6 is what helps.

use crate::seccomp::{Argument, Bits, Condition, Errno, Rule, Syscall};

fn int(argument: Argument) -> Bits {
    Condition::int(argument)
}

pub(super) fn rules(agent: u32) -> Vec<Rule> {
    let process = u64::from(agent);
    let group = u64::from(agent.wrapping_neg());
    // To all processes. It spares process 1, and no other supervisor of the same user.
    const EVERYBODY: u64 = 0xffff_ffff;
    let refuse = |syscall| Rule::refuse(syscall, Errno::EPERM);
    let mut everybody = vec![process, EVERYBODY];
    if group != EVERYBODY {
        everybody.push(group);
    }
    vec![
        refuse(Syscall::KILL).when(int(Argument::First).one_of(everybody)),
        refuse(Syscall::TKILL).when(int(Argument::First).equals(process)),
        refuse(Syscall::TGKILL).when(int(Argument::First).equals(process)),
        refuse(Syscall::TGKILL).when(int(Argument::Second).equals(process)),
        refuse(Syscall::RT_SIGQUEUEINFO).when(int(Argument::First).equals(process)),
        refuse(Syscall::RT_TGSIGQUEUEINFO).when(int(Argument::First).equals(process)),
        refuse(Syscall::RT_TGSIGQUEUEINFO).when(int(Argument::Second).equals(process)),
        refuse(Syscall::PIDFD_OPEN).when(int(Argument::First).equals(process)),
        // Whom a descriptor means cannot be seen, and a folder of /proc is one too. Runtimes use kill without it.
        Rule::refuse(Syscall::PIDFD_SEND_SIGNAL, Errno::ENOSYS),
    ]
}
