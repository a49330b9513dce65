//! The differences between the environments that backends create.

use super::Paths;

/// What isolates the executions of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Separate namespaces, with a root that contains only what the plan grants.
    Namespaces,
    /// A container or pod: separate namespaces, with an image as root.
    Container,
    /// The host's namespaces, if unprivileged ones are not available. Only Landlock separates files
    /// and signals; only the filter separates the network and System V objects.
    Host,
}

/// What a backend chooses for the confinement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// What isolates the executions.
    pub isolation: Isolation,
    /// What Landlock grants.
    pub paths: Paths,
    /// The agent's process ID as code sees it, 1 by default.
    pub agent: u32,
    /// Limit each process's data to the plan's memory (`RLIMIT_DATA`), if no control group limits
    /// memory.
    pub memory_by_rlimit: bool,
    /// Limit the processes of the code's user (`RLIMIT_NPROC`), if no control group does. Counts
    /// all processes of the user in the code's user namespace, so it requires a user without
    /// others.
    pub pids_by_rlimit: bool,
    /// Limit each file to the plan's disk (`RLIMIT_FSIZE`), if code can write to storage of the
    /// host without a quota.
    pub disk_by_rlimit: bool,
}

impl Profile {
    /// A profile with the agent as process 1 and without resource limits that replace a control
    /// group's.
    #[must_use]
    pub fn new(isolation: Isolation, paths: Paths) -> Self {
        Self {
            isolation,
            paths,
            agent: 1,
            memory_by_rlimit: false,
            pids_by_rlimit: false,
            disk_by_rlimit: false,
        }
    }
}
