//! Mutants of this backend: each leaves one mechanism out and claims it all the same, so that a suite can show that it would
//! notice.

use sandbox_agent::protocol::Mount;
use sandbox_freestanding::namespace::{CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWUTS};

use crate::cgroup::Limits;
use crate::lower::LocalPlan;

/// What is left out. A sandbox in the host's namespaces is not changed by any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutation {
    /// The network namespace: the sandbox is in the host's.
    NetworkNamespace,
    /// The namespace of System V objects and message queues.
    IpcNamespace,
    /// The namespace of host names.
    UtsNamespace,
    /// The filter of system calls.
    Seccomp,
    /// The Landlock domain.
    Landlock,
    /// The limits of the control groups; the groups themselves are made.
    ControlGroups,
    /// The limits by `setrlimit`.
    ResourceLimits,
    /// The size of what code can write to.
    Storage,
    /// Every mount is writable.
    ReadOnly,
    /// The file system of processes is the host's.
    Processes,
    /// Device files are the host's, all of them.
    Devices,
}

/// More than any probe writes.
const NO_SIZE: u64 = 1 << 40;

impl Mutation {
    /// What is done without the mechanism. What is reported stays.
    pub(crate) fn of(self, mut plan: LocalPlan) -> LocalPlan {
        match self {
            Self::NetworkNamespace => {
                plan.network = false;
                plan.setup.loopback = false;
                plan.namespaces &= !CLONE_NEWNET;
            }
            Self::IpcNamespace => plan.namespaces &= !CLONE_NEWIPC,
            Self::UtsNamespace => {
                plan.namespaces &= !CLONE_NEWUTS;
                // It would be the host's that is named.
                plan.setup.hostname.clear();
            }
            Self::Seccomp => plan.confinement.seccomp.clear(),
            Self::Landlock => plan.confinement.landlock = None,
            Self::ControlGroups => {
                plan.groups = Limits {
                    track: true,
                    ..Limits::default()
                };
            }
            Self::ResourceLimits => plan.confinement.limits.clear(),
            Self::Storage => {
                plan.scratch.size = NO_SIZE;
                plan.scratch.inodes = 0;
            }
            Self::ReadOnly => writable(&mut plan.setup.mounts),
            Self::Processes => of_the_host(&mut plan.setup.mounts, "/proc"),
            Self::Devices => of_the_host(&mut plan.setup.mounts, "/dev"),
        }
        plan
    }
}

fn writable(mounts: &mut Vec<Mount>) {
    mounts.retain(|mount| !matches!(mount, Mount::ReadOnly { .. }));
    for mount in mounts {
        if let Mount::Bind { read_only, .. } = mount {
            *read_only = false;
        }
    }
}

/// Puts a folder of the host where the sandbox has one of its own.
fn of_the_host(mounts: &mut Vec<Mount>, folder: &str) {
    let bound = Mount::Bind {
        source: folder.into(),
        target: folder.into(),
        read_only: false,
        devices: true,
        optional: false,
    };
    let at = |mount: &Mount| match mount {
        Mount::Proc { target } | Mount::Bind { target, .. } | Mount::Symlink { target, .. } => {
            target.starts_with(folder.as_bytes())
        }
        _ => false,
    };
    let position = mounts.iter().position(at);
    mounts.retain(|mount| !at(mount));
    mounts.insert(position.unwrap_or(0).min(mounts.len()), bound);
}
