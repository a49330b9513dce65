//! System V objects and POSIX message queues, where there is no ipc namespace: the host's are shared with every process of
//! the same user.

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

/// As in a kernel that was built without them. Their numbers can be guessed, so making and finding is not all that is refused.
pub(super) fn rules() -> Vec<Rule> {
    OBJECTS
        .iter()
        .map(|syscall| Rule::refuse(*syscall, Errno::ENOSYS))
        .collect()
}
