//! Rules that protect executions of a sandbox, and the agent, from each other.
//!
//! All executions of a sandbox run as one user, and changing limits, priorities and processors of a
//! process only requires the same user. So one execution could end another (`RLIMIT_CPU`), or take
//! its files and processors away. A filter does not know the caller's process ID, so these calls
//! are allowed only with 0, the caller. Programs that pass their own process or thread ID
//! (`pthread_setaffinity_np`) get `EPERM`.
//!
//! Everybody may set the default scheduling class, which takes nothing away: ZeroMQ sets it for each
//! of its threads (`pthread_setschedparam`), and aborts if that fails.

use crate::seccomp::{Argument, Bits, Condition, Errno, Rule, Syscall};

fn int(argument: Argument) -> Bits {
    Condition::int(argument)
}

pub(super) fn rules() -> Vec<Rule> {
    // `which` of setpriority and ioprio_set: all processes of a user, including the agent.
    const PRIO_USER: u64 = 2;
    const IOPRIO_WHO_USER: u64 = 3;
    const SCHED_OTHER: u64 = 0;
    let refuse = |syscall| Rule::refuse(syscall, Errno::EPERM);
    let another = |argument| int(argument).differs_from(0);
    vec![
        // Reading limits is harmless.
        refuse(Syscall::PRLIMIT64)
            .when(another(Argument::First))
            .when(Condition::long(Argument::Third).differs_from(0)),
        refuse(Syscall::SCHED_SETAFFINITY).when(another(Argument::First)),
        refuse(Syscall::SCHED_SETPARAM).when(another(Argument::First)),
        refuse(Syscall::SCHED_SETSCHEDULER)
            .when(another(Argument::First))
            .when(int(Argument::Second).differs_from(SCHED_OTHER)),
        refuse(Syscall::SETPRIORITY).when(int(Argument::First).equals(PRIO_USER)),
        refuse(Syscall::SETPRIORITY).when(another(Argument::Second)),
        refuse(Syscall::IOPRIO_SET).when(int(Argument::First).equals(IOPRIO_WHO_USER)),
        refuse(Syscall::IOPRIO_SET).when(another(Argument::Second)),
    ]
}
