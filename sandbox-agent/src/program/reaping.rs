//! StreamFds and stops of the agent's children.

use crate::runtime::{
    Pid,
    signal::{self, SIGKILL},
    syscall::{nr, result, retry, syscall4},
};

/// What became of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaped {
    /// It has ended.
    Ended(Pid),
    /// A signal stopped it.
    Stopped(Pid),
}

/// The next child of which there is news; `None` without news, or without children.
pub(super) fn reap() -> Option<Reaped> {
    const WNOHANG: usize = 1;
    const WUNTRACED: usize = 2;
    let mut status = 0i32;
    let pid = retry(|| {
        // SAFETY: the kernel writes one status.
        result(unsafe {
            syscall4(
                nr::WAIT4,
                usize::MAX,
                &raw mut status as usize,
                WNOHANG | WUNTRACED,
                0,
            )
        })
    });
    // The only error is that there is no child.
    let pid = Pid(i32::try_from(pid.ok()?).ok().filter(|pid| *pid > 0)?);
    Some(if status & 0xff == 0x7f {
        Reaped::Stopped(pid)
    } else {
        Reaped::Ended(pid)
    })
}

/// Kills a child that is not reaped yet.
pub(super) fn kill(pid: Pid) {
    // It exists, and is of the agent's own identity: the call cannot fail.
    let _ = signal::kill(pid, SIGKILL);
}
