//! Detection of seccomp.
#![expect(unsafe_code, reason = "the system call has no safe wrapper")]

/// The kernel's seccomp features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seccomp {
    /// Filters.
    pub(crate) filters: bool,
    /// Filters that ask a supervisor (Linux 5.0); it denies a second `execve` (continuing the call
    /// needs 5.5).
    pub(crate) notification: bool,
}

impl Seccomp {
    pub(super) fn detect() -> Self {
        const RETURN_ERRNO: u32 = 0x0005_0000;
        const RETURN_USER_NOTIFICATION: u32 = 0x7fc0_0000;
        Self {
            filters: action_available(RETURN_ERRNO),
            notification: action_available(RETURN_USER_NOTIFICATION),
        }
    }
}

fn action_available(action: u32) -> bool {
    use sandbox_agent::runtime::syscall::{check, nr, syscall3};
    const GET_ACTION_AVAIL: usize = 2;
    // SAFETY: the kernel reads the four bytes of `action`.
    let answer =
        check(unsafe { syscall3(nr::SECCOMP, GET_ACTION_AVAIL, 0, &raw const action as usize) });
    answer.is_ok()
}
