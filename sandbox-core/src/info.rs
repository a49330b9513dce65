//! What is told of a sandbox without reaching into it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Whether a detached sandbox still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// It runs and takes executions.
    Running,
    /// It has ended and could not clean up after itself: [`crate::SandboxClient::remove`] or
    /// [`crate::SandboxClient::prune`] removes what it left.
    Ended,
}

impl SandboxState {
    /// `running` or `ended`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// A detached sandbox, as a list of them shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxInfo {
    /// Its name.
    pub name: String,
    /// The tier that it runs on.
    pub tier: String,
    /// Whether it runs.
    pub state: SandboxState,
    /// When it was created, by the clock of the machine that keeps it.
    pub created: SystemTime,
    /// When its time to live is over.
    pub expires: Option<SystemTime>,
    /// The labels of its specification.
    pub labels: BTreeMap<String, String>,
}

impl SandboxInfo {
    /// A sandbox without a time to live and without labels.
    pub fn new(
        name: impl Into<String>,
        tier: impl Into<String>,
        state: SandboxState,
        created: SystemTime,
    ) -> Self {
        Self {
            name: name.into(),
            tier: tier.into(),
            state,
            created,
            expires: None,
            labels: BTreeMap::new(),
        }
    }
}
