//! A limit by a control group.

use std::fmt;

/// A limit by a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CgroupLimit {
    /// Who set the limit.
    pub owner: LimitOwner,
    /// The version of the kernel's interface.
    pub version: CgroupVersion,
    /// What is limited.
    pub controller: CgroupController,
}

impl CgroupLimit {
    /// The limit of a sandbox that its backend set.
    #[must_use]
    pub const fn new(version: CgroupVersion, controller: CgroupController) -> Self {
        Self {
            owner: LimitOwner::Sandbox,
            version,
            controller,
        }
    }

    /// The same limit, set by another owner.
    #[must_use]
    pub const fn owned_by(mut self, owner: LimitOwner) -> Self {
        self.owner = owner;
        self
    }

    /// Every limit.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        LimitOwner::ALL.iter().flat_map(|&owner| {
            CgroupVersion::ALL.iter().flat_map(move |&version| {
                let limits = CgroupController::ALL.iter();
                limits.map(move |&controller| Self::new(version, controller).owned_by(owner))
            })
        })
    }
}

impl fmt::Display for CgroupLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, version) = (self.owner.words(), self.version.words());
        write!(f, "{owner}{version} {}", self.controller.words())
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$variant_doc:meta])* $variant:ident = $words:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn words(self) -> &'static str {
                match self { $(Self::$variant => $words),* }
            }
        }
    };
}

words! {
    /// Who set a limit by a control group.
    LimitOwner:
    /// The backend, for its sandbox.
    Sandbox = "",
    /// The specification of the backend's pod.
    Pod = "pod limit: ",
    /// The options of an adopted container.
    Container = "the container's ",
    /// The specification of an adopted container in a pod.
    PodContainer = "the container's limit: ",
}

words! {
    /// The version of the kernel's control groups.
    CgroupVersion:
    /// Unknown.
    Unknown = "cgroup",
    /// A hierarchy for each controller.
    V1 = "cgroup v1",
    /// One hierarchy.
    V2 = "cgroup v2",
}

words! {
    /// What a control group limits.
    CgroupController:
    /// Memory.
    Memory = "memory",
    /// Processor time, by the group of the local backend.
    Cpu = "cpu",
    /// Processor time, by the quota of an engine or a cluster.
    Quota = "quota",
    /// The number of processes.
    Pids = "pids",
}
