//! What an execution has no use for, and what it could use up or set off outside of the sandbox.
//!
//! For executions only: the agent sets limits and makes pipes larger.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = core_files().to_vec();
    rules.extend(pipe_buffers());
    rules
}

/// The limit of core files stays as it is: with any other value a crash can start the host's crash helper. `EINVAL` is what a
/// kernel says that does not know the limit; GnuPG, which gives up core files, ends on anything else.
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

/// A pipe does not grow beyond what it has from the start. The kernel counts buffers for each user of the host, and gives smaller
/// ones to who has many; without this rule 64 pipes would be enough.
fn pipe_buffers() -> [Rule; 2] {
    const F_SETPIPE_SZ: u64 = 1031;
    const USUAL: u64 = 0x1_0000;
    // "More than" in pieces: another number of whole 64 KiB, or one of these and a rest.
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
