//! Files that grant more than their content, and locks that block other processes.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

const SET_USER_OR_GROUP_ID: u64 = 0o6000;

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    rules.extend(device_files());
    rules.push(whiteouts());
    rules.extend(modes());
    rules.extend(new_files());
    rules.push(leases());
    rules
}

fn refuse(syscall: Syscall) -> Rule {
    Rule::refuse(syscall, Errno::EPERM)
}

fn is_marked(mode: Argument) -> Condition {
    Condition::masked(mode, SET_USER_OR_GROUP_ID).differs_from(0)
}

/// Character and block devices among the types of `mknod`; FIFOs and regular files are allowed. The
/// kernel reads 16 bits of the mode.
fn device_files() -> [Rule; 2] {
    const TYPE: u64 = 0xf000;
    const CHARACTER: u64 = 0x2000;
    const BLOCK: u64 = 0x6000;
    [
        (Syscall::MKNOD, Argument::Second),
        (Syscall::MKNODAT, Argument::Third),
    ]
    .map(|(syscall, mode)| {
        refuse(syscall).when(Condition::masked(mode, TYPE).one_of([CHARACTER, BLOCK]))
    })
}

/// A rename that leaves a character device behind (`RENAME_WHITEOUT`), which overlay file systems
/// treat as a removed file.
fn whiteouts() -> Rule {
    const RENAME_WHITEOUT: u64 = 1 << 2;
    refuse(Syscall::RENAMEAT2)
        .when(Condition::masked(Argument::Fifth, RENAME_WHITEOUT).differs_from(0))
}

/// A set-user-ID or set-group-ID program in a folder of the host would give its owner's or group's
/// rights to any user of the host. `chmod` is the usual way to create one. Folders are affected,
/// too, since a filter cannot tell them from files; a folder still inherits set-group-ID from its
/// parent.
fn modes() -> [Rule; 4] {
    [
        (Syscall::CHMOD, Argument::Second),
        (Syscall::FCHMOD, Argument::Second),
        (Syscall::FCHMODAT, Argument::Third),
        (Syscall::FCHMODAT2, Argument::Third),
    ]
    .map(|(syscall, mode)| refuse(syscall).when(is_marked(mode)))
}

/// The same bits for a new file. Writing clears them, but kernels before 5.18 kept them if the
/// content came from `fallocate` and a shared mapping. `mkdir` ignores both bits.
fn new_files() -> [Rule; 5] {
    // The kernel reads the mode only with one of these flags.
    const O_CREAT: u64 = 0o100;
    const O_TMPFILE: u64 = 0o20_000_000;
    let creates = |flags| Condition::masked(flags, O_CREAT | O_TMPFILE).differs_from(0);
    let made = |syscall, mode| refuse(syscall).when(is_marked(mode));
    [
        made(Syscall::CREAT, Argument::Second),
        made(Syscall::MKNOD, Argument::Second),
        made(Syscall::MKNODAT, Argument::Third),
        made(Syscall::OPEN, Argument::Third).when(creates(Argument::Second)),
        made(Syscall::OPENAT, Argument::Fourth).when(creates(Argument::Third)),
    ]
}

/// Leases and delegations make other processes that open the file wait for up to 45 s, including
/// other users of the host. `F_NOTIFY` is the old way to watch a folder. inotify is still allowed;
/// it does the same without signals.
fn leases() -> Rule {
    const F_SETLEASE: u64 = 1024;
    const F_NOTIFY: u64 = 1026;
    const F_SETDELEG: u64 = 1040;
    refuse(Syscall::FCNTL)
        .when(Condition::int(Argument::Second).one_of([F_SETLEASE, F_NOTIFY, F_SETDELEG]))
}
