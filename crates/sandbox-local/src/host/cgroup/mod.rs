//! Which control groups this process may make groups in.

mod tables;
mod v1;
mod v2;

use std::path::PathBuf;

use tables::Mounts;

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

impl Cgroups {
    pub(crate) fn detect() -> Self {
        let read =
            |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let tables =
            read("/proc/self/cgroup").and_then(|own| Ok((own, read("/proc/self/mountinfo")?)));
        match tables {
            Ok((own, mounts)) => Self::choose(&Mounts::parse(&own, &mounts), has_swap()),
            Err(reason) => Self::None {
                reason,
                fix: "mount /proc".into(),
            },
        }
    }

    fn choose(mounts: &Mounts, has_swap: bool) -> Self {
        let first = v1::detect(mounts, has_swap);
        let (second, why_not) = match v2::detect(mounts, has_swap) {
            Ok(second) => (Some(second), None),
            Err(why_not) => (None, Some(why_not)),
        };
        match (first, second) {
            // A hybrid host has its controllers in one of them; the one with more of them is the one in use.
            (Some(first), Some(second)) if second.count() > first.count() => Self::V2(second),
            (Some(first), _) => Self::V1(first),
            (None, Some(second)) => Self::V2(second),
            (None, None) if v1::is_in_use(mounts) => Self::None {
                reason: "control groups of version 1 are not writable for this user".into(),
                fix: "run as root, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)"
                    .into(),
            },
            (None, None) => {
                let (reason, fix) = why_not.unwrap_or_default();
                Self::None { reason, fix }
            }
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

    /// `v1:cpu,memory,pids`, as the profile's key has it.
    pub(crate) fn summary(&self) -> String {
        let version = match self {
            Self::V1(_) => "v1",
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
