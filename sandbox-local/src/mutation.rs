//! Mutants of this backend. Each leaves out one mechanism but reports it as enforced, so that the
//! conformance suite can prove that it notices.

use sandbox_agent::protocol::Mount;
use sandbox_agent::runtime::namespace::{CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWUTS};

use crate::cgroup::Limits;
use crate::lower::LocalPlan;

/// What to leave out. Sandboxes in the host's namespaces do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalMutation {
    /// The network namespace: the sandbox uses the host's.
    NetworkNamespace,
    /// The namespace of System V objects and message queues.
    IpcNamespace,
    /// The namespace of host names.
    UtsNamespace,
    /// The seccomp filter.
    Seccomp,
    /// The Landlock domain.
    Landlock,
    /// The scopes of the Landlock domain; its file rules stay.
    LandlockScopes,
    /// The limits of the control groups; the groups are still created.
    ControlGroups,
    /// The limits set by `setrlimit`.
    ResourceLimits,
    /// The size limit of what code can write.
    Storage,
    /// Read-only mounts: every mount is writable.
    ReadOnly,
    /// The read-only mounts over kernel settings.
    KernelSettings,
    /// The mask over the kernel's list of keys.
    KeyRings,
    /// The limits of the sandbox's user namespace.
    UserLimits,
    /// The sandbox's own `/proc`: it is the host's.
    Processes,
    /// The sandbox's own `/dev`: it is the host's, with all devices.
    Devices,
    /// The object checks: roots, the workspace and package folders are mounted by path, whatever
    /// the path leads to by then.
    RootsByPath,
    /// The link checks: links in the paths of roots and the workspace are followed everywhere.
    FollowLinks,
    /// The protection against renaming folders above mount points in a writable folder.
    MovableMountPoints,
}

/// More than any probe writes, in bytes.
const NO_SIZE: u64 = 1 << 40;

impl LocalMutation {
    /// Removes the mechanism from the plan but not from its report.
    pub(crate) fn of(self, mut plan: LocalPlan) -> LocalPlan {
        match self {
            Self::NetworkNamespace => {
                plan.network = false;
                plan.setup.loopback = false;
                // Otherwise the host would get the addresses of names.
                plan.setup.egress = None;
                plan.namespaces &= !CLONE_NEWNET;
            }
            Self::IpcNamespace => plan.namespaces &= !CLONE_NEWIPC,
            Self::UtsNamespace => {
                plan.namespaces &= !CLONE_NEWUTS;
                // Otherwise it would name the host.
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
            // Applied where the paths are opened.
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

/// Replaces the sandbox's own `folder` by the host's.
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
        Mount::Proc { target }
        | Mount::Bind { target, .. }
        | Mount::Terminals { target, .. }
        | Mount::Symlink { target, .. } => target.starts_with(folder.as_bytes()),
        _ => false,
    };
    let position = mounts.iter().position(at);
    mounts.retain(|mount| !at(mount));
    mounts.insert(position.unwrap_or(0).min(mounts.len()), bound);
}
