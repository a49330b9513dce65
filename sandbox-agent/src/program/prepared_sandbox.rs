//! What every execution of the sandbox needs, prepared once.

use alloc::{ffi::CString, vec::Vec};

use crate::runtime::{Fd, limits::Rlimit, seccomp::SockFilter};

use super::{memory_kills::KillCount, oom_score::OomScore, procfs::Procfs};
use crate::protocol::Limit;

/// The prepared sandbox. Its descriptors are close-on-exec.
#[derive(Debug)]
pub(super) struct PreparedSandbox {
    /// Where executions start that name no folder.
    pub(super) workdir: CString,
    /// User and group of the code, where they are not the agent's (split mode).
    pub(super) identity: Option<(u32, u32)>,
    /// Resource limits.
    pub(super) limits: Vec<Limit>,
    /// The Landlock rules.
    pub(super) landlock: Option<Fd>,
    /// The seccomp program; empty for none.
    pub(super) seccomp: Vec<SockFilter>,
    /// Whether an execution may execute one program only.
    pub(super) exec_once: bool,
    /// The file mode creation mask.
    pub(super) umask: u32,
    /// The limit of open files that the agent was started with, before it raised its own.
    pub(super) open_files: Rlimit,
    /// Where processes are found, if anywhere.
    pub(super) procfs: Option<Procfs>,
    /// `/dev/null`, where the sandbox has it.
    pub(super) null: Option<Fd>,
    /// The agent's own badness to the out-of-memory killer.
    pub(super) oom: Option<OomScore>,
    /// Where the kernel counts kills for memory, where the host has named a file that says so.
    pub(super) kill_count: Option<KillCount>,
    /// Readable when a child of the reading process has ended.
    pub(super) child_ended: Fd,
}
