//! Engine options of the operator. Each can tighten a sandbox; none can loosen it.

use std::collections::{BTreeMap, BTreeSet};

/// Engine options besides the policy. A value that would loosen a sandbox, or that the engine
/// lacks, is refused when a sandbox is created, with a one-line reason.
///
/// Options that could loosen a sandbox are not supported: capabilities, devices, annotations
/// (runtimes may act on them), kernel parameters, shared namespaces, a cgroup parent, raw security
/// options.
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
    /// Resource limits of every process, including the agent; used as soft and hard limit.
    pub ulimits: BTreeMap<Ulimit, u64>,
    /// An AppArmor profile loaded on the engine's host, instead of the engine's default. Its
    /// content is the operator's responsibility; `unconfined` is refused.
    pub apparmor: Option<String>,
    /// The SELinux level instead of one chosen by the engine: one sensitivity and one or two
    /// categories (`s0:c100,c200`).
    pub selinux_level: Option<String>,
    /// Paths that appear empty to code, besides the engine's own.
    pub masked_paths: BTreeSet<String>,
    /// Paths that code cannot write, besides the engine's own.
    pub read_only_paths: BTreeSet<String>,
    /// The processors that code may run on, in the kernel's list format (`0-2,4`).
    pub processors: Option<String>,
    /// The memory nodes that code may use, in the kernel's list format.
    pub memory_nodes: Option<String>,
    /// The processor weight under contention; the default is 1024. At least 2.
    pub cpu_shares: Option<u16>,
    /// The disk weight under contention; the default is 500. At least 10.
    pub io_weight: Option<u16>,
    /// How much earlier than other processes the sandbox is killed when the host runs out of
    /// memory: 0 to 1000.
    pub oom_score_adj: Option<u16>,
    /// The host name in the sandbox. Default: `sandbox`.
    pub hostname: Option<String>,
    /// Gives each container its own range of host users (Podman's `--userns=auto`).
    pub private_users: bool,
}

/// A resource limit of a process (`setrlimit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Ulimit {
    /// Processor time, seconds.
    CpuTime,
    /// Data segment, bytes.
    Data,
    /// File size, bytes.
    FileSize,
    /// Locked memory, bytes.
    LockedMemory,
    /// POSIX message queues of a user, bytes: at most the kernel's default of 819200.
    MessageQueues,
    /// Open descriptors of a process: at least 256, which the agent needs.
    OpenFiles,
    /// Pending signals of a user's processes.
    PendingSignals,
    /// Processes of a user.
    Processes,
    /// Stack, bytes: at least 64 KiB, which programs need to start.
    Stack,
}

impl Ulimit {
    /// The engine's name of the limit.
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

    /// The kernel's number of the limit (`RLIMIT_*`).
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

    /// Uses an AppArmor profile that is loaded on the engine's host.
    #[must_use]
    pub fn apparmor(mut self, profile: impl Into<String>) -> Self {
        self.apparmor = Some(profile.into());
        self
    }

    /// Sets the SELinux level.
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

    /// Sets the processor weight under contention.
    #[must_use]
    pub fn cpu_shares(mut self, shares: u16) -> Self {
        self.cpu_shares = Some(shares);
        self
    }

    /// Sets the disk weight under contention.
    #[must_use]
    pub fn io_weight(mut self, weight: u16) -> Self {
        self.io_weight = Some(weight);
        self
    }

    /// Sets how much earlier than other processes the sandbox is killed when memory runs out.
    #[must_use]
    pub fn oom_score_adj(mut self, adjustment: u16) -> Self {
        self.oom_score_adj = Some(adjustment);
        self
    }

    /// Sets the host name in the sandbox.
    #[must_use]
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = Some(name.into());
        self
    }

    /// Gives each container its own range of host users.
    #[must_use]
    pub fn private_users(mut self) -> Self {
        self.private_users = true;
        self
    }
}
