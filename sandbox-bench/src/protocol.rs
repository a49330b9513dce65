//! What driver and worker say to each other: a JSON value a line.

use serde::{Deserialize, Serialize};

use crate::case::Operation;
use crate::memory::Footprint;

/// A line from the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Do it once and time it.
    Do(Operation),
    /// Describe the processes of the warm sandbox.
    Memory,
}

/// The worker's answer; the first one, [`Answer::Done`] with nothing in it, says that it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// How long it took.
    Done(Sample),
    /// The sandbox's processes.
    Memory(Vec<Footprint>),
    /// What should be measured is not on this machine.
    Missing(String),
    /// It failed.
    Failed(String),
}

/// One measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// From begin to end, in nanoseconds.
    pub nanoseconds: u64,
    /// Its parts in their order, in nanoseconds.
    pub parts: Vec<(String, u64)>,
    /// Resident memory of the processes of one of the sandboxes that were there at the same time, in bytes, each shared page
    /// divided by those who share it; where that was asked and the kernel tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl Sample {
    /// The share of one of `count` that did the same at the same time.
    #[must_use]
    pub fn share(mut self, count: u32) -> Self {
        let count = u64::from(count.max(1));
        self.nanoseconds /= count;
        self.memory = self.memory.map(|memory| memory / count);
        for (_, part) in &mut self.parts {
            *part /= count;
        }
        self
    }
}
