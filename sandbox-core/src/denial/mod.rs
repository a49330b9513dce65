//! Denials: what was denied, by which rule, and whether a retry helps. A program reads the fields;
//! a person or a model reads the text.
//!
//! A denial is a fact that the host or the agent knows. It is never a guess from the output of
//! code. `docs/denials.md` lists which denials each backend can know.

mod explain;
mod list;
mod refusal;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Capability;

pub use explain::denied_connection;
pub(crate) use explain::{
    SPECIFICATION_ADVICE, of_artifact, of_end, of_file_error, of_output, of_specification, of_unmet,
};
pub(crate) use list::DenialLog;
pub use list::Denials;
pub use refusal::Refusal;

/// The kind of a denial. The names are stable, so programs can match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DenialKind {
    /// Executing another program, where only one is allowed.
    Program,
    /// Starting a process, where only one is allowed.
    Process,
    /// A process or thread above the limit.
    ProcessLimit,
    /// Memory above the limit: the kernel killed a process.
    Memory,
    /// Time above the limit: the execution was killed.
    Time,
    /// Output above the limit: it was dropped, or the execution was killed.
    Output,
    /// A network destination.
    Network,
    /// Storage above the limit.
    Storage,
    /// Reading a file of the sandbox for the caller.
    FileRead,
    /// Writing a file in the sandbox for the caller.
    FileWrite,
    /// Exporting an artifact.
    Artifact,
    /// A specification that asks for more than the policy allows.
    Specification,
    /// A demand that the backend cannot enforce on this host.
    NotEnforceable,
}

/// Something that was denied.
///
/// Displays as one line for a person or a model. In every field, control characters of names from a
/// sandbox are escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Denial {
    /// The kind.
    pub kind: DenialKind,
    /// The capability with the rule that denied it.
    pub capability: Capability,
    /// What was denied ("network access is denied by the policy").
    pub what: String,
    /// The rule ("network_access = none").
    pub rule: String,
    /// The number of times, at least 1.
    pub times: u64,
    /// Whether the same action may succeed later if nothing else changes.
    pub retry_helps: bool,
    /// What to do about it.
    pub advice: String,
}

impl Denial {
    /// A denial that happened once and that a retry does not change.
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

    /// Whether two denials are equal except for the number of times.
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
