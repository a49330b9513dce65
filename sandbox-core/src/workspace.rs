//! What became of a workspace that a sandbox has as a copy, since its backend cannot show it the folder itself.

use serde::{Deserialize, Serialize};

use crate::Copied;

/// How many paths of each kind a [`Synced`] names at most; of the rest it has the count.
pub const MOST_NAMED: usize = 1000;

/// A workspace that is a copy: what came into the sandbox when it was created, and what last came out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkspaceCopies {
    /// What was brought in. What was not, links say, stands in [`Copied::skipped`] with its reason.
    pub brought: Copied,
    /// What the last sync that succeeded did; `None` before the first.
    pub synced: Option<Synced>,
}

/// What a sync of a workspace did: what the code has changed was copied to the host's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Synced {
    /// What was copied to the host, and what of it was not for what it is: a link, special, too large, of a name that cannot be.
    pub copied: Copied,
    /// How many files the code has left as they were.
    pub unchanged: u64,
    /// Files that both sides have changed: the host's stay.
    pub conflicts: Vec<Conflict>,
    /// How many more conflicts there are than are named.
    pub more_conflicts: u64,
    /// Files that the code has removed, below the workspace: the host's stay.
    pub removed: Vec<String>,
    /// How many more were removed than are named.
    pub more_removed: u64,
}

impl Synced {
    /// Whether everything that the code has changed is on the host now, but for what it has removed.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.copied.skipped.is_empty() && self.conflicts.is_empty()
    }
}

/// A file that was changed on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Conflict {
    /// Its path below the workspace.
    pub path: String,
    /// What happened on the host.
    pub host: HostChange,
}

impl Conflict {
    /// A conflict of this file.
    #[must_use]
    pub fn new(path: String, host: HostChange) -> Self {
        Self { path, host }
    }
}

/// What happened to a file of the host since it was last copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostChange {
    /// It was changed, or replaced.
    Changed,
    /// It was removed.
    Removed,
    /// The sandbox made a file where the host has made something too.
    Appeared,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let happened = match self.host {
            HostChange::Changed => "changed on the host too",
            HostChange::Removed => "removed on the host",
            HostChange::Appeared => "made on the host too",
        };
        write!(f, "{}: {happened}", crate::escape(&self.path))
    }
}
