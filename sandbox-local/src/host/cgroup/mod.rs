//! Finds the control groups in which this process may create groups.

mod tables;
mod v1;
mod v2;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tables::Hierarchies;

use crate::spawn::clone;
use crate::systemd::{PendingScope, Scope, Unavailable};

/// The control groups that sandboxes can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// v1: a hierarchy for each controller.
    V1(V1),
    /// v2: one hierarchy.
    V2(V2),
    /// None that this process may use.
    None {
        /// Why not.
        reason: String,
        /// What would provide them.
        fix: String,
    },
}

/// v1: the parent folder of new groups in each controller's hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct V1 {
    pub(crate) memory: Option<PathBuf>,
    pub(crate) cpu: Option<PathBuf>,
    pub(crate) pids: Option<PathBuf>,
    pub(crate) swap: Swap,
    /// Files of hierarchies that limit nothing, and their names below `/sys/fs/cgroup`. The JVM
    /// reads limits only where it finds mounts of these hierarchies, too.
    pub(crate) markers: Vec<(PathBuf, &'static str)>,
}

/// v2: the parent folder of new groups, and the controllers available in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct V2 {
    pub(crate) folder: PathBuf,
    pub(crate) memory: bool,
    pub(crate) cpu: bool,
    pub(crate) pids: bool,
    pub(crate) swap: Swap,
    /// The systemd scope that owns the folder. It lives as long as this reference.
    pub(crate) scope: Option<Arc<Scope>>,
}

/// Whether swap counts towards the memory limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Swap {
    /// The kernel accounts swap, and the group limits it.
    #[default]
    Limited,
    /// The host has no swap.
    Absent,
    /// The host has swap that no group accounts.
    Uncounted,
}

/// A detection in progress; systemd works in the meantime.
pub(crate) struct Detection {
    mounts: Result<Hierarchies, String>,
    /// `None` if systemd was not asked.
    scope: Option<Result<PendingScope, Unavailable>>,
}

impl Detection {
    /// Starts the detection for a process of this user.
    pub(crate) fn begin(user: u32) -> Self {
        let mounts = read("/proc/self/cgroup")
            .and_then(|own| Ok(Hierarchies::parse(&own, &read("/proc/self/mountinfo")?)));
        let unified = mounts
            .as_ref()
            .is_ok_and(|mounts| mounts.v2.is_some() && !v1::is_in_use(mounts));
        let scope = unified.then(|| PendingScope::begin(user));
        Self { mounts, scope }
    }

    /// Waits for the result.
    pub(crate) fn finish(self) -> Cgroups {
        match self.mounts {
            Ok(mounts) => {
                let scope = self.scope.map(|pending| pending.and_then(scope));
                Cgroups::choose(&mounts, has_swap(), scope)
            }
            Err(reason) => Cgroups::None {
                reason,
                fix: "mount /proc".into(),
            },
        }
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|cause| format!("{path}: {cause}"))
}

fn scope(pending: PendingScope) -> Result<Scope, Unavailable> {
    pending.finish(|pid| {
        let group = read(&format!("/proc/{pid}/cgroup")).map_err(io::Error::other)?;
        let mounts = read("/proc/self/mountinfo").map_err(io::Error::other)?;
        let hidden = || io::Error::other("its group is not in reach of this process' mounts");
        let found = Hierarchies::parse(&group, &mounts).v2.ok_or_else(hidden)?;
        Ok(found.own)
    })
}

impl Cgroups {
    #[cfg(test)]
    pub(crate) fn detect() -> Self {
        Detection::begin(rustix::process::geteuid().as_raw()).finish()
    }

    /// Chooses from the mounted hierarchies and systemd's answer, if it was asked.
    fn choose(
        mounts: &Hierarchies,
        has_swap: bool,
        scope: Option<Result<Scope, Unavailable>>,
    ) -> Self {
        let first = v1::detect(mounts, has_swap);
        let scope = scope.map(|scope| scope.and_then(|scope| v2::of_scope(scope, has_swap)));
        let second = match scope {
            Some(Ok(scope)) => Ok(scope),
            // Use groups without systemd. If there are none, systemd's refusal has the fix.
            Some(Err(refusal)) => v2::detect(mounts, has_swap).map_err(|why_not| Unavailable {
                reason: format!("{}, and {}", why_not.reason, refusal.reason),
                fix: refusal.fix,
            }),
            None => v2::detect(mounts, has_swap),
        };
        let second = second.and_then(|second| match clone::knows_groups() {
            Ok(()) => Ok(second),
            Err(errno) => Err(Unavailable {
                reason: format!("no process can be made in a control group (clone3: {errno})"),
                fix: "use Linux 5.7 or later; in a container, allow clone3".into(),
            }),
        });
        match (first, second) {
            // A hybrid host splits its controllers between v1 and v2; use the version with more of
            // them.
            (Some(first), Ok(second)) if second.count() > first.count() => Self::V2(second),
            (Some(first), _) => Self::V1(first),
            (None, Ok(second)) => Self::V2(second),
            (None, Err(_)) if v1::is_in_use(mounts) => Self::None {
                reason: "control groups of version 1 are not writable for this user".into(),
                fix: "run as root, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)"
                    .into(),
            },
            (None, Err(Unavailable { reason, fix })) => Self::None { reason, fix },
        }
    }

    /// Whether the groups were removed since they were detected.
    pub(crate) fn have_ended(&self) -> bool {
        self.scope().is_some_and(|scope| scope.has_ended())
    }

    /// The systemd scope in which groups are created.
    pub(crate) fn scope(&self) -> Option<&Arc<Scope>> {
        match self {
            Self::V2(groups) => groups.scope.as_ref(),
            Self::V1(_) | Self::None { .. } => None,
        }
    }

    pub(crate) fn has_memory(&self) -> bool {
        match self {
            Self::V1(groups) => groups.memory.is_some(),
            Self::V2(groups) => groups.memory,
            Self::None { .. } => false,
        }
    }

    pub(crate) fn has_cpu(&self) -> bool {
        match self {
            Self::V1(groups) => groups.cpu.is_some(),
            Self::V2(groups) => groups.cpu,
            Self::None { .. } => false,
        }
    }

    pub(crate) fn has_pids(&self) -> bool {
        match self {
            Self::V1(groups) => groups.pids.is_some(),
            Self::V2(groups) => groups.pids,
            Self::None { .. } => false,
        }
    }

    pub(crate) fn swap(&self) -> Swap {
        match self {
            Self::V1(groups) => groups.swap,
            Self::V2(groups) => groups.swap,
            Self::None { .. } => Swap::Absent,
        }
    }

    /// The value of the profile key: `v1:cpu,memory,pids`, or `v2-scope:` with a systemd scope.
    pub(crate) fn summary(&self) -> String {
        let version = match self {
            Self::V1(_) => "v1",
            Self::V2(groups) if groups.scope.is_some() => "v2-scope",
            Self::V2(_) => "v2",
            Self::None { .. } => return "none".into(),
        };
        let controllers = [
            ("cpu", self.has_cpu()),
            ("memory", self.has_memory()),
            ("pids", self.has_pids()),
        ];
        let there = controllers
            .iter()
            .filter(|(_, there)| *there)
            .map(|(name, _)| *name);
        format!("{version}:{}", there.collect::<Vec<_>>().join(","))
    }
}

impl V1 {
    fn count(&self) -> usize {
        [&self.memory, &self.cpu, &self.pids]
            .into_iter()
            .flatten()
            .count()
    }
}

impl V2 {
    fn count(&self) -> usize {
        [self.memory, self.cpu, self.pids]
            .into_iter()
            .filter(|there| *there)
            .count()
    }
}

fn has_swap() -> bool {
    // The first line is a heading. Without the file, assume that the host has swap.
    std::fs::read_to_string("/proc/swaps").map_or(true, |table| table.lines().count() > 1)
}

fn writable(path: &std::path::Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}
