//! What code of the agent's own user may not do to it.
//!
//! The agent is non-dumpable, so that the kernel denies code its memory, descriptors and files below `/proc`. Signals, limits
//! and priorities ask for the same user only. A filter cannot know the caller's own process id, so these calls are left with 0,
//! which means the caller; programs that name themselves or a thread of theirs by number (`pthread_setaffinity_np`,
//! `pthread_setschedparam`) get `EPERM`.
//!
//! What a filter cannot tell are the supervisors of executions, whose ids it does not know, and signals by way of
//! `F_SETOWN_EX` and its kin, whose target is behind a pointer. From inside, process 1 of a process namespace gets no signal
//! that it does not handle, not even `SIGKILL`; for supervisors the scope of Landlock's ABI 6 is what helps.

use crate::seccomp::{Argument, Bits, Condition, Errno, Rule, Syscall};

pub(super) fn rules(agent: u32) -> Vec<Rule> {
    let mut rules = signals(agent);
    rules.extend(limits_and_priorities());
    rules
}

fn int(argument: Argument) -> Bits {
    Condition::int(argument)
}

fn signals(agent: u32) -> Vec<Rule> {
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

fn limits_and_priorities() -> Vec<Rule> {
    // `which` of setpriority and ioprio_set: everything of a user, the agent too.
    const PRIO_USER: u64 = 2;
    const IOPRIO_WHO_USER: u64 = 3;
    let refuse = |syscall| Rule::refuse(syscall, Errno::EPERM);
    let another = |argument| int(argument).differs_from(0);
    vec![
        // Reading limits is harmless.
        refuse(Syscall::PRLIMIT64)
            .when(another(Argument::First))
            .when(Condition::long(Argument::Third).differs_from(0)),
        refuse(Syscall::SCHED_SETAFFINITY).when(another(Argument::First)),
        refuse(Syscall::SCHED_SETPARAM).when(another(Argument::First)),
        refuse(Syscall::SCHED_SETSCHEDULER).when(another(Argument::First)),
        refuse(Syscall::SETPRIORITY).when(int(Argument::First).equals(PRIO_USER)),
        refuse(Syscall::SETPRIORITY).when(another(Argument::Second)),
        refuse(Syscall::IOPRIO_SET).when(int(Argument::First).equals(IOPRIO_WHO_USER)),
        refuse(Syscall::IOPRIO_SET).when(another(Argument::Second)),
    ]
}
