//! Killing the processes of a supervisor that was killed.

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

/// Timeout of a sweep, in milliseconds.
const SWEEP_TIMEOUT_MS: u64 = 2000;

/// Time between two rounds, in milliseconds.
const ROUND_INTERVAL_MS: u64 = 4;

/// How many rounds in a row must find no process.
const CLEAN_ROUNDS: u32 = 2;

/// A sweep in progress. Orphans are children of the agent, so they are found by descent.
#[derive(Debug)]
pub(in crate::program) struct Sweep {
    end: MonotonicMicros,
    next: MonotonicMicros,
    /// How many rounds in a row found no process. One is not enough: a process whose parent ends
    /// while procfs is listed may be missed.
    clean_rounds: u32,
    killed: BTreeSet<Pid>,
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::program) struct SweepResult {
    pub(in crate::program) killed: u32,
    pub(in crate::program) survivors: u32,
}

impl Sweep {
    /// Starts a sweep; its first round is due at once.
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

    /// Runs a round if one is due; returns the result once no process is left, or after the
    /// timeout.
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
            // Without procfs, processes cannot be found: assume that one survives.
            return Some(SweepResult {
                killed: 0,
                survivors: 1,
            });
        };
        let mut processes = Vec::new();
        let listed = snapshot(procfs, &BTreeSet::new(), &mut processes);
        let agent = BTreeSet::from([process::current()]);
        let mut remaining = descendants(&processes, &agent, supervisors);
        remaining.retain(|process| !process.ended);
        if listed.is_ok() && remaining.is_empty() {
            self.clean_rounds += 1;
            return (self.clean_rounds == CLEAN_ROUNDS).then(|| self.result(0));
        }
        self.clean_rounds = 0;
        if now() >= self.end {
            return Some(self.result(remaining.len().max(1)));
        }
        for process in remaining {
            // An error means that it has ended.
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
