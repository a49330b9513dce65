//! What is known about a sandbox without connecting to it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Whether a sandbox runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// It runs and accepts executions.
    Running,
    /// It has ended and left something behind, which [`crate::SandboxClient::remove`] or
    /// [`crate::SandboxClient::prune`] removes.
    Ended,
    /// Its record cannot be read: another version of this program wrote it.
    /// [`crate::SandboxClient::get`] says what is wrong.
    Unknown,
}

impl SandboxState {
    /// `running`, `ended` or `unknown`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Unknown => "unknown",
        }
    }
}

/// The owner of an attached sandbox: the client that created it. The sandbox ends with its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxOwner {
    /// Its process id, if it is a process of this host.
    pub pid: Option<u32>,
    /// The label that identifies it on the engine or cluster, if it is not a process of this host.
    pub label: Option<String>,
}

impl SandboxOwner {
    /// A process of this host.
    #[must_use]
    pub fn process(pid: u32) -> Self {
        let pid = Some(pid);
        Self { pid, label: None }
    }

    /// This process.
    #[must_use]
    pub fn this_process() -> Self {
        Self::process(std::process::id())
    }

    /// A client on another host, by its label.
    #[must_use]
    pub fn labeled(label: impl Into<String>) -> Self {
        let label = Some(label.into());
        Self { pid: None, label }
    }

    /// A client that was not recorded.
    #[must_use]
    pub fn unknown() -> Self {
        let (pid, label) = (None, None);
        Self { pid, label }
    }
}

impl fmt::Display for SandboxOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.label) {
            (Some(pid), _) => write!(f, "process {pid}"),
            (None, Some(label)) => write!(f, "client {}", crate::escape::escape(label)),
            (None, None) => f.write_str("an unknown client"),
        }
    }
}

/// A sandbox in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxInfo {
    /// Its name.
    pub name: String,
    /// The tier that it runs on.
    pub tier: String,
    /// Whether it runs.
    pub state: SandboxState,
    /// When it was created, by the clock of the machine that it is on.
    pub created: SystemTime,
    /// When its lifetime ends; `None` without a lifetime.
    pub expires: Option<SystemTime>,
    /// The labels of its specification.
    pub labels: BTreeMap<String, String>,
    /// The owner of an attached sandbox; `None` for a detached sandbox.
    pub owner: Option<SandboxOwner>,
}

impl SandboxInfo {
    /// A detached sandbox without labels and lifetime.
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
            owner: None,
        }
    }
}
