//! How much room the sandboxes of a run may take, where each reserves what it may use.

use sandbox_core::{ByteSize, Cpus};

use crate::probe::Setting;

/// Processor time where memory runs out. Killed processes need some to end, and those beside them that want memory wait for them in
/// the kernel, at the cost of the same quota: with an eighth of a processor, the few kills of one probe have taken 25 s; with this,
/// a second or two (Linux 6.18, whatever engine made the control group).
const CPUS_OF_KILLS: Cpus = Cpus::milli(500);

/// What sandboxes ask for where no probe asks for something else, and how many of them are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Memory of each.
    pub memory: ByteSize,
    /// Processor time of each.
    pub cpus: Cpus,
    /// The most sandboxes at the same time that probes share; one more makes way for each that is needed.
    pub sandboxes: usize,
}

impl Room {
    /// A cluster reserves on a node what its pods may use: a small one, with two processors, has room for these. Elsewhere
    /// nobody reserves anything, and there is no bound.
    #[must_use]
    pub fn of(tier: &str) -> Option<Self> {
        (tier == "k8s").then_some(Self {
            memory: ByteSize::mib(128),
            cpus: Cpus::milli(120),
            sandboxes: 8,
        })
    }

    /// What a sandbox of this setting asks for; what its policy says stands.
    pub(crate) fn sizes(self, setting: &Setting) -> (Option<ByteSize>, Option<Cpus>) {
        let policy = &setting.policy;
        let cpus = match policy.memory {
            Some(_) => CPUS_OF_KILLS,
            None => self.cpus,
        };
        (
            policy.memory.is_none().then_some(self.memory),
            policy.cpus.is_none().then_some(cpus),
        )
    }
}
