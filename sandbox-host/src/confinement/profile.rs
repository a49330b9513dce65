//! What differs between the places that backends make.

use super::Paths;

/// What surrounds the executions of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Namespaces of its own, with a root that holds only what the plan grants.
    Namespaces,
    /// A container or pod: namespaces of its own, with an image as root.
    Container,
    /// The host's namespaces, where unprivileged ones are denied. Landlock alone keeps files and signals apart, the filter
    /// alone the network and System V objects.
    Host,
}

/// What a backend chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// What surrounds the executions.
    pub isolation: Isolation,
    /// What Landlock grants.
    pub paths: Paths,
    /// The agent's process id as the code sees it: 1 unless the backend says otherwise.
    pub agent: u32,
    /// Limit each process' data to the plan's memory (`RLIMIT_DATA`), where no control group limits the tree.
    pub memory_by_rlimit: bool,
    /// Limit the processes of the code's user to the plan's (`RLIMIT_NPROC`), where no control group does. Counts the user's
    /// processes in the code's user namespace, so it is of use only where the user has no others there.
    pub pids_by_rlimit: bool,
    /// Limit each file to the plan's disk (`RLIMIT_FSIZE`), where code can write to storage of the host that has no quota.
    pub disk_by_rlimit: bool,
}

impl Profile {
    /// A profile with the agent as process 1 and no limit in place of a control group's.
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
