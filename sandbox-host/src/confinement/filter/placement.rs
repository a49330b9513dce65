//! Placement of memory and processes on NUMA machines, which affects other processes, and very old
//! interfaces. Container engines deny these by default, so programs have fallbacks.

use crate::seccomp::{Errno, Rule, Syscall};

const NOT_PERMITTED: &[Syscall] = &[
    Syscall::GET_MEMPOLICY,
    Syscall::MBIND,
    Syscall::MIGRATE_PAGES,
    Syscall::MOVE_PAGES,
    Syscall::SET_MEMPOLICY,
    Syscall::SET_MEMPOLICY_HOME_NODE,
    Syscall::SYSFS,
    Syscall::USTAT,
];

pub(super) fn rules() -> Vec<Rule> {
    NOT_PERMITTED
        .iter()
        .map(|syscall| Rule::refuse(*syscall, Errno::EPERM))
        .collect()
}
