//! Which control groups this process may make groups in.

mod tables;
mod v1;
mod v2;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tables::Mounts;

use crate::spawn::clone;
use crate::systemd::{Begun, Refusal, Scope};

/// The control groups that a sandbox can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// A hierarchy for each controller.
    V1(V1),
    /// One hierarchy.
    V2(V2),
    /// None that this process may use.
    None {
        /// Why not.
        reason: String,
        /// What would provide it.
        fix: String,
    },
}

/// Version 1: in which folder of each controller's hierarchy groups are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct V1 {
    pub(crate) memory: Option<PathBuf>,
    pub(crate) cpu: Option<PathBuf>,
    pub(crate) pids: Option<PathBuf>,
    pub(crate) swap: Swap,
}

/// Version 2: in which folder groups are made, and which controllers they have there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct V2 {
    pub(crate) folder: PathBuf,
    pub(crate) memory: bool,
    pub(crate) cpu: bool,
    pub(crate) pids: bool,
    pub(crate) swap: Swap,
    /// The scope of systemd whose folder it is. It lives as long as somebody has it.
    pub(crate) scope: Option<Arc<Scope>>,
}

/// Whether swapped-out memory counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Swap {
    /// The kernel accounts for it and the group limits it.
    #[default]
    Limited,
    /// The host has none.
    Absent,
    /// The host has some that no group counts.
    Uncounted,
}

/// A look at the control groups, which lets systemd work meanwhile.
pub(crate) struct Detection {
    mounts: Result<Mounts, String>,
    /// `None` where systemd has nothing to say.
    scope: Option<Result<Begun, Refusal>>,
}

impl Detection {
    /// Begins, for a process of this user.
    pub(crate) fn begin(user: u32) -> Self {
        let mounts = read("/proc/self/cgroup")
            .and_then(|own| Ok(Mounts::parse(&own, &read("/proc/self/mountinfo")?)));
        let unified = mounts
            .as_ref()
            .is_ok_and(|mounts| mounts.v2.is_some() && !v1::is_in_use(mounts));
        let scope = unified.then(|| Begun::begin(user));
        Self { mounts, scope }
    }

    /// What there is.
    pub(crate) fn finish(self) -> Cgroups {
        match self.mounts {
            Ok(mounts) => {
                let scope = self.scope.map(|begun| begun.and_then(scope));
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

fn scope(begun: Begun) -> Result<Scope, Refusal> {
    begun.finish(|pid| {
        let group = read(&format!("/proc/{pid}/cgroup")).map_err(io::Error::other)?;
        let mounts = read("/proc/self/mountinfo").map_err(io::Error::other)?;
        let hidden = || io::Error::other("its group is not in reach of this process' mounts");
        let found = Mounts::parse(&group, &mounts).v2.ok_or_else(hidden)?;
        Ok(found.own)
    })
}

impl Cgroups {
    #[cfg(test)]
    pub(crate) fn detect() -> Self {
        Detection::begin(rustix::process::geteuid().as_raw()).finish()
    }

    /// Out of what is mounted, and systemd's answer where it was asked.
    fn choose(mounts: &Mounts, has_swap: bool, scope: Option<Result<Scope, Refusal>>) -> Self {
        let first = v1::detect(mounts, has_swap);
        let scope = scope.map(|scope| scope.and_then(|scope| v2::of_scope(scope, has_swap)));
        let second = match scope {
            Some(Ok(scope)) => Ok(scope),
            // What there is without systemd is none of its business, but systemd may be what is missing.
            Some(Err(refusal)) => v2::detect(mounts, has_swap).map_err(|why_not| Refusal {
                reason: format!("{}, and {}", why_not.reason, refusal.reason),
                fix: refusal.fix,
            }),
            None => v2::detect(mounts, has_swap),
        };
        let second = second.and_then(|second| match clone::knows_groups() {
            Ok(()) => Ok(second),
            Err(errno) => Err(Refusal {
                reason: format!("no process can be made in a control group (clone3: {errno})"),
                fix: "use Linux 5.7 or later; in a container, allow clone3".into(),
            }),
        });
        match (first, second) {
            // A hybrid host has its controllers in one of them; the one with more of them is the one in use.
            (Some(first), Ok(second)) if second.count() > first.count() => Self::V2(second),
            (Some(first), _) => Self::V1(first),
            (None, Ok(second)) => Self::V2(second),
            (None, Err(_)) if v1::is_in_use(mounts) => Self::None {
                reason: "control groups of version 1 are not writable for this user".into(),
                fix: "run as root, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)"
                    .into(),
            },
            (None, Err(Refusal { reason, fix })) => Self::None { reason, fix },
        }
    }

    /// Whether the groups have gone since they were found.
    pub(crate) fn have_ended(&self) -> bool {
        self.scope().is_some_and(|scope| scope.has_ended())
    }

    /// The scope of systemd in which groups are made.
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

    /// `v1:cpu,memory,pids`, as the profile's key has it; `v2-scope` in a scope of systemd.
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
    // The first line is a heading. A host that does not say is taken to have some.
    std::fs::read_to_string("/proc/swaps").map_or(true, |table| table.lines().count() > 1)
}

fn writable(path: &std::path::Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}
