//! System V objects and POSIX message queues, if there is no IPC namespace: the host's are shared
//! with all processes of the same user.

use crate::seccomp::{Errno, Rule, Syscall};

const OBJECTS: &[Syscall] = &[
    Syscall::MQ_OPEN,
    Syscall::MQ_UNLINK,
    Syscall::MSGCTL,
    Syscall::MSGGET,
    Syscall::MSGRCV,
    Syscall::MSGSND,
    Syscall::SEMCTL,
    Syscall::SEMGET,
    Syscall::SEMOP,
    Syscall::SEMTIMEDOP,
    Syscall::SHMAT,
    Syscall::SHMCTL,
    Syscall::SHMDT,
    Syscall::SHMGET,
];

/// Refused with `ENOSYS`, as by a kernel without them. Their IDs can be guessed, so operations on
/// existing objects are refused, too.
pub(super) fn rules() -> Vec<Rule> {
    OBJECTS
        .iter()
        .map(|syscall| Rule::refuse(*syscall, Errno::ENOSYS))
        .collect()
}
