//! What one probe found.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What one probe found on one tier of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Both controls succeeded, the attack was stopped in a known way, and the host is untouched.
    Enforced,
    /// The attack succeeded, or the host was touched.
    Leaked,
    /// What the policy permits does not work either, so that nothing can be credited.
    Overblocked,
    /// The attack does not even work without a sandbox on this host.
    Inconclusive,
    /// The attack did not succeed, in a way that no known mechanism explains.
    Unexplained,
    /// The backend declines what it cannot enforce, with a typed error.
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

    /// Whether the probe told something about the backend. What it does not tell counts in no cell.
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
