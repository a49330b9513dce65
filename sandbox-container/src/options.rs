//! Engine options that an operator may add. Every one of them can tighten a sandbox and none can loosen it.

use std::collections::{BTreeMap, BTreeSet};

/// Engine options beside what a policy says. A value that would loosen a sandbox, or that the engine does not have, is refused when
/// a sandbox is created, with one line that says why.
///
/// Not here, because they can open more than they close: capabilities, devices, annotations (runtimes take orders from them), kernel
/// parameters, shared namespaces, a parent for the control group, raw security options.
///
/// ```
/// use sandbox_container::{ContainerConfig, EngineOptions, Ulimit};
///
/// let options = EngineOptions::default()
///     .ulimit(Ulimit::FileSize, 64 << 20)
///     .masked_path("/proc/zoneinfo")
///     .processors("0-1")
///     .oom_score_adj(500);
/// let config = ContainerConfig::default().options(options);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Resource limits of every process, the agent's too; soft and hard alike.
    pub ulimits: BTreeMap<Ulimit, u64>,
    /// An AppArmor profile that the engine's host has loaded, in place of the engine's own. Whoever loaded it answers for what it
    /// allows; `unconfined` is refused.
    pub apparmor: Option<String>,
    /// The level of the SELinux label in place of the one that the engine draws: one sensitivity and one or two categories
    /// (`s0:c100,c200`).
    pub selinux_level: Option<String>,
    /// Paths that code finds empty, beside the engine's own.
    pub masked_paths: BTreeSet<String>,
    /// Paths that code cannot write, beside the engine's own.
    pub read_only_paths: BTreeSet<String>,
    /// The processors that code may run on, as a list of the kernel's (`0-2,4`).
    pub processors: Option<String>,
    /// The memory nodes that code may use, as a list of the kernel's.
    pub memory_nodes: Option<String>,
    /// The share of the processors under contention; 1024 is everybody's. At least 2.
    pub cpu_shares: Option<u16>,
    /// The share of the disks under contention; 500 is everybody's. At least 10.
    pub io_weight: Option<u16>,
    /// How much sooner than others the sandbox is killed when the host runs out of memory: 0 to 1000.
    pub oom_score_adj: Option<u16>,
    /// The name of the host that code sees; `sandbox` without.
    pub hostname: Option<String>,
    /// Give each container users of its own on the host (Podman's `--userns=auto`).
    pub private_users: bool,
}

/// A resource limit of a process, as `setrlimit` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Ulimit {
    /// Processor time, seconds.
    CpuTime,
    /// Data segment, bytes.
    Data,
    /// The largest file, bytes.
    FileSize,
    /// Locked memory, bytes.
    LockedMemory,
    /// POSIX message queues of a user, bytes: at most the kernel's default of 819200.
    MessageQueues,
    /// Open descriptors of a process: at least 256, which the agent needs.
    OpenFiles,
    /// Signals that wait for a user's processes.
    PendingSignals,
    /// Processes of a user.
    Processes,
    /// Stack, bytes: at least 64 KiB, which programs need to start.
    Stack,
}

impl Ulimit {
    /// The engine's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu",
            Self::Data => "data",
            Self::FileSize => "fsize",
            Self::LockedMemory => "memlock",
            Self::MessageQueues => "msgqueue",
            Self::OpenFiles => "nofile",
            Self::PendingSignals => "sigpending",
            Self::Processes => "nproc",
            Self::Stack => "stack",
        }
    }

    /// The kernel's number for it (`RLIMIT_*`).
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::CpuTime => 0,
            Self::FileSize => 1,
            Self::Data => 2,
            Self::Stack => 3,
            Self::Processes => 6,
            Self::OpenFiles => 7,
            Self::LockedMemory => 8,
            Self::PendingSignals => 11,
            Self::MessageQueues => 12,
        }
    }
}

impl EngineOptions {
    /// Sets a resource limit of every process.
    #[must_use]
    pub fn ulimit(mut self, resource: Ulimit, value: u64) -> Self {
        self.ulimits.insert(resource, value);
        self
    }

    /// Uses an AppArmor profile that the engine's host has loaded.
    #[must_use]
    pub fn apparmor(mut self, profile: impl Into<String>) -> Self {
        self.apparmor = Some(profile.into());
        self
    }

    /// Sets the level of the SELinux label.
    #[must_use]
    pub fn selinux_level(mut self, level: impl Into<String>) -> Self {
        self.selinux_level = Some(level.into());
        self
    }

    /// Hides a path.
    #[must_use]
    pub fn masked_path(mut self, path: impl Into<String>) -> Self {
        self.masked_paths.insert(path.into());
        self
    }

    /// Makes a path read-only.
    #[must_use]
    pub fn read_only_path(mut self, path: impl Into<String>) -> Self {
        self.read_only_paths.insert(path.into());
        self
    }

    /// Sets the processors that code may run on.
    #[must_use]
    pub fn processors(mut self, list: impl Into<String>) -> Self {
        self.processors = Some(list.into());
        self
    }

    /// Sets the memory nodes that code may use.
    #[must_use]
    pub fn memory_nodes(mut self, list: impl Into<String>) -> Self {
        self.memory_nodes = Some(list.into());
        self
    }

    /// Sets the share of the processors under contention.
    #[must_use]
    pub fn cpu_shares(mut self, shares: u16) -> Self {
        self.cpu_shares = Some(shares);
        self
    }

    /// Sets the share of the disks under contention.
    #[must_use]
    pub fn io_weight(mut self, weight: u16) -> Self {
        self.io_weight = Some(weight);
        self
    }

    /// Sets how much sooner than others the sandbox is killed when the host runs out of memory.
    #[must_use]
    pub fn oom_score_adj(mut self, adjustment: u16) -> Self {
        self.oom_score_adj = Some(adjustment);
        self
    }

    /// Sets the name of the host that code sees.
    #[must_use]
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = Some(name.into());
        self
    }

    /// Gives each container users of its own on the host.
    #[must_use]
    pub fn private_users(mut self) -> Self {
        self.private_users = true;
        self
    }
}
