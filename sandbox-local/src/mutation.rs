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
    /// The scopes of the Landlock domain; its rules for files stay.
    LandlockScopes,
    /// The limits of the control groups; the groups themselves are made.
    ControlGroups,
    /// The limits by `setrlimit`.
    ResourceLimits,
    /// The size of what code can write to.
    Storage,
    /// Every mount is writable.
    ReadOnly,
    /// Settings of the kernel are as writable as their permissions say.
    KernelSettings,
    /// The list of keys is the kernel's.
    KeyRings,
    /// The limits of the sandbox's user namespace.
    UserLimits,
    /// The file system of processes is the host's.
    Processes,
    /// Device files are the host's, all of them.
    Devices,
    /// Roots, the workspace and the folders of packages are mounted by their paths, whatever these lead to by then.
    RootsByPath,
    /// Links in the paths of roots and the workspace are followed wherever they lead.
    FollowLinks,
    /// Folders above what is mounted in a writable folder can be renamed.
    MovableMountPoints,
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
            Self::LandlockScopes => {
                if let Some(rules) = &mut plan.confinement.landlock {
                    rules.scoped = 0;
                }
            }
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
            Self::KernelSettings => plan
                .setup
                .mounts
                .retain(|mount| !matches!(mount, Mount::ReadOnlyPart { .. })),
            Self::KeyRings => plan.setup.mounts.retain(
                |mount| !matches!(mount, Mount::Mask { target, .. } if target.starts_with(b"/proc/key")),
            ),
            Self::UserLimits => plan.setup.user_limits.clear(),
            Self::Processes => of_the_host(&mut plan.setup.mounts, "/proc"),
            Self::Devices => of_the_host(&mut plan.setup.mounts, "/dev"),
            Self::RootsByPath => by_path(&mut plan),
            // Done where the paths are opened.
            Self::FollowLinks => {}
            Self::MovableMountPoints => {
                let mounts = &mut plan.setup.mounts;
                mounts.retain(|mount| !matches!(mount, Mount::Pin { .. }));
            }
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

fn by_path(plan: &mut LocalPlan) {
    for mount in &mut plan.setup.mounts {
        if let Mount::Bind { object, .. } | Mount::Mask { object, .. } = mount {
            *object = None;
        }
    }
    for mapped in &mut plan.mapped {
        mapped.object = None;
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
        object: None,
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
