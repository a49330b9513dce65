//! Memory that no memory limit counts: huge pages, which the host's administrator has reserved for somebody else.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// By mapping, by file in memory, by System V segment. Programs that ask for huge pages go on without them. Transparent huge
/// pages stay: these are ordinary memory, which is counted.
pub(super) fn rules() -> Vec<Rule> {
    const MAP_HUGETLB: u64 = 0x4_0000;
    const MFD_HUGETLB: u64 = 4;
    const SHM_HUGETLB: u64 = 0o4000;
    [
        (Syscall::MMAP, Argument::Fourth, MAP_HUGETLB),
        (Syscall::MEMFD_CREATE, Argument::Second, MFD_HUGETLB),
        (Syscall::SHMGET, Argument::Third, SHM_HUGETLB),
    ]
    .into_iter()
    .map(|(syscall, flags, huge)| {
        let asked = Condition::masked(flags, huge).differs_from(0);
        Rule::refuse(syscall, Errno::EPERM).when(asked)
    })
    .collect()
}
