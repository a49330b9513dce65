//! What a backend knows of the kernel under a sandbox, and of the agent's place in it.

use crate::seccomp::Arch;

/// The kernel that a sandbox runs on. It is the engine's, which need not be the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// The architecture of the agent and of the code.
    pub arch: Arch,
    /// The Landlock ABI, 0 without Landlock.
    pub landlock_abi: u32,
    /// Whether filters can be installed (`CONFIG_SECCOMP_FILTER`).
    pub seccomp: bool,
    /// Whether a filter can ask a supervisor and be told to let a call through (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`, Linux
    /// 5.5).
    pub seccomp_notify: bool,
}

/// As whom code runs, beside the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As a user of its own: the kernel keeps it from touching the agent.
    Split {
        /// The code's user, as a number of the sandbox's user namespace.
        uid: u32,
        /// The code's group.
        gid: u32,
    },
    /// As the agent's user: only the filter, Landlock and the agent's being non-dumpable stand between them.
    Shared,
}
