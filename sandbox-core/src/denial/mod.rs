//! What was denied, by which rule, and whether a retry helps: for a program, and in words for a person or a model.
//!
//! A denial is a fact that the host or the agent in the sandbox knows, never a guess from what code wrote. `docs/denials.md`
//! lists which denials can be known on which backend, and which cannot.

mod list;
mod refusal;
mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Capability;

pub(crate) use list::DenialLog;
pub use list::Denials;
pub use refusal::Refusal;
pub(crate) use words::{
    SPECIFICATION_ADVICE, of_artifact, of_end, of_file_error, of_output, of_specification, of_unmet,
};

/// What kind of thing was denied. Stable: programs can tell by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DenialKind {
    /// A program replacing the first one, where only one is allowed.
    Program,
    /// A process, where only one is allowed.
    Process,
    /// A process or thread beyond the limit.
    ProcessLimit,
    /// Memory beyond the limit: the kernel killed a process for it.
    Memory,
    /// Time beyond the limit: the execution was killed.
    Time,
    /// Output beyond the limit: it was not kept, or the execution was killed for it.
    Output,
    /// A destination on the network.
    Network,
    /// Storage beyond the limit.
    Storage,
    /// A file that the caller wanted out of the sandbox.
    FileRead,
    /// A file that the caller wanted in the sandbox.
    FileWrite,
    /// Something that was to be exported.
    Artifact,
    /// A specification that asks for more than the policy allows.
    Specification,
    /// A demand that the backend cannot hold on this host.
    NotEnforceable,
}

/// Something that was denied.
///
/// Displays as one line, worded for a person or a model. Names that came out of a sandbox have their control characters
/// escaped in every field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Denial {
    /// What kind of thing.
    pub kind: DenialKind,
    /// The capability whose rule it was.
    pub capability: Capability,
    /// What was denied ("network access is denied by the policy").
    pub what: String,
    /// The rule ("network_access = none").
    pub rule: String,
    /// How often, at least once.
    pub times: u64,
    /// Whether the same may succeed if it is tried again and nothing else changes.
    pub retry_helps: bool,
    /// What would help.
    pub advice: String,
}

impl Denial {
    /// Something that was denied once, and will be again.
    pub(crate) fn new(
        kind: DenialKind,
        capability: Capability,
        what: impl Into<String>,
        rule: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            capability,
            what: what.into(),
            rule: rule.into(),
            times: 1,
            retry_helps: false,
            advice: advice.into(),
        }
    }

    pub(crate) fn times(mut self, times: u64) -> Self {
        self.times = times.max(1);
        self
    }

    /// Whether it is the same but for the number of times.
    fn is_like(&self, other: &Self) -> bool {
        let key = |denial: &Self| (denial.kind, denial.capability, denial.retry_helps);
        key(self) == key(other)
            && self.what == other.what
            && self.rule == other.rule
            && self.advice == other.advice
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.rule)?;
        if self.times > 1 {
            write!(f, ", {} times", self.times)?;
        }
        let retry = if self.retry_helps {
            "a retry may help"
        } else {
            "a retry will not help"
        };
        write!(f, "; {retry}")?;
        if !self.advice.is_empty() {
            write!(f, ": {}", self.advice)?;
        }
        Ok(())
    }
}
