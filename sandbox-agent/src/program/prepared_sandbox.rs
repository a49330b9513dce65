//! What all executions of the sandbox use, prepared once.

use alloc::{ffi::CString, vec::Vec};

use crate::runtime::{Fd, limits::Rlimit, seccomp::SockFilter};

use super::{memory_kills::KillCount, oom_score::OomScore, procfs::Procfs};
use crate::protocol::ResourceLimit;

/// User and group of an execution that is root inside.
pub(super) const ROOT: (u32, u32) = (0, 0);

/// The prepared sandbox. Its descriptors are close-on-exec.
#[derive(Debug)]
pub(super) struct PreparedSandbox {
    /// Default working directory of executions.
    pub(super) workdir: CString,
    /// Words before those of each command.
    pub(super) launcher: Vec<Vec<u8>>,
    /// User and group of the code if they differ from the agent's (split mode).
    pub(super) identity: Option<(u32, u32)>,
    /// Whether an execution may be user 0 instead of [`Self::identity`].
    pub(super) allows_root: bool,
    /// Resource limits.
    pub(super) limits: Vec<ResourceLimit>,
    /// The Landlock ruleset.
    pub(super) landlock: Option<Fd>,
    /// The seccomp program; empty for none.
    pub(super) seccomp: Vec<SockFilter>,
    /// Whether an execution may execute one program only.
    pub(super) exec_once: bool,
    /// The file mode creation mask.
    pub(super) umask: u32,
    /// The limit of open files that the agent was started with, before it raised its own.
    pub(super) open_files: Rlimit,
    /// A procfs of the agent's PID namespace, if there is one.
    pub(super) procfs: Option<Procfs>,
    /// `/dev/null`, if the sandbox has it.
    pub(super) null: Option<Fd>,
    /// The agent's `oom_score_adj`.
    pub(super) oom: Option<OomScore>,
    /// The kernel's count of out-of-memory kills, if the client named a readable file.
    pub(super) kill_count: Option<KillCount>,
    /// A signalfd for SIGCHLD: readable when a child of the reading process has ended.
    pub(super) child_ended: Fd,
}
