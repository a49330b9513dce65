//! The verdict of a probe.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdict of one probe on one tier of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Both controls succeeded, a known mechanism denied the attack, and the host is unchanged.
    Enforced,
    /// The attack succeeded or changed the host.
    Leaked,
    /// Permitted use fails too, so the denial proves nothing.
    Overblocked,
    /// The attack fails on this host even without a sandbox.
    Inconclusive,
    /// The attack failed, and no known mechanism explains why.
    Unexplained,
    /// The backend refuses, with a typed error, what it cannot enforce.
    Refused,
    /// Runs of the same probe disagree.
    Flaky,
    /// The probe was not run.
    NotRun,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: &'static [Self] = &[
        Self::Enforced,
        Self::Leaked,
        Self::Overblocked,
        Self::Inconclusive,
        Self::Unexplained,
        Self::Refused,
        Self::Flaky,
        Self::NotRun,
    ];

    /// The name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Leaked => "leaked",
            Self::Overblocked => "overblocked",
            Self::Inconclusive => "inconclusive",
            Self::Unexplained => "unexplained",
            Self::Refused => "refused",
            Self::Flaky => "flaky",
            Self::NotRun => "not_run",
        }
    }

    /// Whether the verdict says something about the backend. Other verdicts count in no cell.
    #[must_use]
    pub fn is_measured(self) -> bool {
        !matches!(self, Self::Inconclusive | Self::NotRun)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
