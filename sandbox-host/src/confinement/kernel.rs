//! What a backend knows about the kernel of a sandbox, and the agent's role in it.

use crate::seccomp::Arch;

/// The kernel that a sandbox runs on: the engine's, which may differ from the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// The architecture of the agent and of the code.
    pub arch: Arch,
    /// The Landlock ABI, 0 without Landlock.
    pub landlock_abi: u32,
    /// Whether filters can be installed (`CONFIG_SECCOMP_FILTER`).
    pub seccomp: bool,
    /// Whether a filter can ask a supervisor that may let the call continue
    /// (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`, Linux 5.5).
    pub seccomp_notify: bool,
}

/// Whether code runs as another user than the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As a separate user: the kernel protects the agent from code.
    Split {
        /// The user of code, in the sandbox's user namespace.
        uid: u32,
        /// The group of code, in the sandbox's user namespace.
        gid: u32,
    },
    /// As the agent's user: only the filter, Landlock and the non-dumpable flag protect the agent.
    Shared,
}
