//! Killing what no supervisor owns any more, after one was killed.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::runtime::{
    Pid, process,
    signal::{self, SIGKILL},
};

use super::tree::{descendants, snapshot};
use crate::program::{
    poll_set::{MonotonicMicros, after, now},
    procfs::Procfs,
};

/// How long it may take, milliseconds.
const SWEEP_TIMEOUT_MS: u64 = 2000;

/// Between two rounds, milliseconds.
const ROUND_INTERVAL_MS: u64 = 4;

/// How many rounds in a row must find nobody.
const CLEAN_ROUNDS: u32 = 2;

/// A sweep under way. Orphans are children of the agent, so that they are found by their lineage.
#[derive(Debug)]
pub(in crate::program) struct Sweep {
    end: MonotonicMicros,
    next: MonotonicMicros,
    /// How many rounds in a row found nobody. One is not enough: whose parent ends while the list is read may be missed.
    clean_rounds: u32,
    killed: BTreeSet<Pid>,
}

/// What a finished sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::program) struct SweepResult {
    pub(in crate::program) killed: u32,
    pub(in crate::program) survivors: u32,
}

impl Sweep {
    /// Begins a sweep; its first round is due at once.
    pub(in crate::program) fn new() -> Self {
        let now = now();
        Self {
            end: after(now, SWEEP_TIMEOUT_MS),
            next: now,
            clean_rounds: 0,
            killed: BTreeSet::new(),
        }
    }

    /// When the next round is due.
    pub(in crate::program) fn next(&self) -> MonotonicMicros {
        self.next
    }

    /// Makes a round if one is due; gives the result once nobody is left, or the time is over.
    pub(in crate::program) fn round(
        &mut self,
        procfs: Option<&Procfs>,
        supervisors: &BTreeSet<Pid>,
    ) -> Option<SweepResult> {
        if now() < self.next {
            return None;
        }
        self.next = after(now(), ROUND_INTERVAL_MS);
        let Some(procfs) = procfs else {
            // Nobody can be found: whether anybody is there is not known, so somebody may be.
            return Some(SweepResult {
                killed: 0,
                survivors: 1,
            });
        };
        let mut processes = Vec::new();
        let listed = snapshot(procfs, &BTreeSet::new(), &mut processes);
        let own = BTreeSet::from([process::current()]);
        let mut left = descendants(&processes, &own, supervisors);
        left.retain(|process| !process.ended);
        if listed.is_ok() && left.is_empty() {
            self.clean_rounds += 1;
            return (self.clean_rounds == CLEAN_ROUNDS).then(|| self.result(0));
        }
        self.clean_rounds = 0;
        if now() >= self.end {
            return Some(self.result(left.len().max(1)));
        }
        for process in left {
            // Gone in between is as good as killed.
            let _ = signal::kill(process.pid, SIGKILL);
            self.killed.insert(process.pid);
        }
        None
    }

    fn result(&self, survivors: usize) -> SweepResult {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        SweepResult {
            killed: count(self.killed.len()),
            survivors: count(survivors),
        }
    }
}
