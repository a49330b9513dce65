//! Memory that no memory limit counts: huge pages, which the administrator has reserved for other
//! uses.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// By mapping, memory file and System V segment. Programs continue without huge pages. Transparent
/// huge pages are allowed, since they count as ordinary memory.
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
