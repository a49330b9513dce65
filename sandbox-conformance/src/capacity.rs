//! The capacity that the sandboxes of a run may use on a tier that reserves their resources.

use sandbox_core::{ByteSize, Cpus};

use crate::probe::SandboxSetup;

/// Processor time of a sandbox with a memory limit. Killed processes need processor time to end,
/// and processes that wait for their memory use up the same quota. With an eighth of a processor,
/// the kills of one probe took 25 s; with this value they take 1 to 2 s (Linux 6.18, any engine).
const CPUS_UNDER_MEMORY_LIMIT: Cpus = Cpus::milli(500);

/// The default resources of a sandbox, and the maximum number of shared sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Memory of each sandbox.
    pub memory: ByteSize,
    /// Processor time of each sandbox.
    pub cpus: Cpus,
    /// The maximum number of shared sandboxes at the same time. One more evicts an idle one.
    pub sandboxes: usize,
}

impl Capacity {
    /// The capacity of a tier. A cluster reserves on a node what its pods may use; a node with two
    /// processors fits these. Other tiers reserve nothing and have no limit.
    #[must_use]
    pub fn of(tier: &str) -> Option<Self> {
        (tier == "k8s").then_some(Self {
            memory: ByteSize::mib(128),
            cpus: Cpus::milli(120),
            sandboxes: 8,
        })
    }

    /// The memory and processors to request for this setup. The limits of its policy take
    /// precedence.
    pub(crate) fn sizes(self, setup: &SandboxSetup) -> (Option<ByteSize>, Option<Cpus>) {
        let policy = &setup.policy;
        let cpus = match policy.memory {
            Some(_) => CPUS_UNDER_MEMORY_LIMIT,
            None => self.cpus,
        };
        (
            policy.memory.is_none().then_some(self.memory),
            policy.cpus.is_none().then_some(cpus),
        )
    }
}
