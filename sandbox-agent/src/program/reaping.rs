//! Reaping the agent's children.

use crate::runtime::{
    Pid,
    signal::{self, SIGKILL},
    syscall::{nr, result, retry, syscall4},
};

/// A child's change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaped {
    /// It ended.
    Ended(Pid),
    /// A signal stopped it.
    Stopped(Pid),
}

/// The next child that has changed its state; `None` without one.
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
    // The child exists and has the agent's identity, so the call cannot fail.
    let _ = signal::kill(pid, SIGKILL);
}
