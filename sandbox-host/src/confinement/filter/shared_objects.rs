//! What executions do not need, and could exhaust or trigger outside of the sandbox.
//!
//! Applies to executions only: the agent sets limits and enlarges pipes.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = core_files().to_vec();
    rules.extend(pipe_buffers());
    rules
}

/// Keeps the limit of core files: with another value, a crash can start the host's core handler.
/// `EINVAL` is what a kernel without the limit returns; GnuPG, which disables core files, aborts on
/// other errors.
fn core_files() -> [Rule; 2] {
    const RLIMIT_CORE: u64 = 4;
    let core = |argument| Condition::int(argument).equals(RLIMIT_CORE);
    [
        Rule::refuse(Syscall::SETRLIMIT, Errno::EINVAL).when(core(Argument::First)),
        // Reading it is harmless.
        Rule::refuse(Syscall::PRLIMIT64, Errno::EINVAL)
            .when(core(Argument::Second))
            .when(Condition::long(Argument::Third).differs_from(0)),
    ]
}

/// Pipes cannot grow beyond their default size. The kernel counts buffers per user of the host, and
/// shrinks those of users with many; without this rule, 64 pipes would use all.
fn pipe_buffers() -> [Rule; 2] {
    const F_SETPIPE_SZ: u64 = 1031;
    const USUAL: u64 = 0x1_0000;
    // "More than 64 KiB" as conditions: another multiple of 64 KiB, or a multiple with a remainder.
    let whole = || Condition::masked(Argument::Third, !(USUAL - 1));
    let rest = Condition::masked(Argument::Third, USUAL - 1);
    let refuse = || {
        Rule::refuse(Syscall::FCNTL, Errno::EPERM)
            .when(Condition::int(Argument::Second).equals(F_SETPIPE_SZ))
    };
    [
        refuse().when(whole().none_of([0, USUAL])),
        refuse()
            .when(whole().equals(USUAL))
            .when(rest.differs_from(0)),
    ]
}
