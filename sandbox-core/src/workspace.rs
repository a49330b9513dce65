//! The state of a workspace that is a copy, because the backend cannot mount the host folder.

use serde::{Deserialize, Serialize};

use crate::Copied;

/// How many paths of each kind a [`Synced`] lists. It counts the others.
pub const MAX_LISTED: usize = 1000;

/// A workspace that is a copy: what was copied into the sandbox at its creation, and the last sync
/// back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkspaceCopies {
    /// What was copied in. [`Copied::skipped`] lists what was skipped, such as links, with the
    /// reasons.
    pub brought: Copied,
    /// The result of the last successful sync; `None` before the first.
    pub synced: Option<Synced>,
}

/// The result of a sync, which copies what code has changed to the host folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Synced {
    /// What was copied to the host, and what was skipped: links, special files, too large files,
    /// invalid names.
    pub copied: Copied,
    /// The number of files that code has not changed.
    pub unchanged: u64,
    /// Files that both sides have changed. The host's versions stay.
    pub conflicts: Vec<Conflict>,
    /// The number of conflicts that are not listed.
    pub more_conflicts: u64,
    /// Files that code has removed, below the workspace. The host's files stay.
    pub removed: Vec<String>,
    /// The number of removed files that are not listed.
    pub more_removed: u64,
}

impl Synced {
    /// Whether the host now has all changes of the code, except removals.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.copied.skipped.is_empty() && self.conflicts.is_empty()
    }
}

/// A file that was changed on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Conflict {
    /// The path below the workspace.
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

/// What happened to a host file since it was last copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostChange {
    /// It was changed or replaced.
    Changed,
    /// It was removed.
    Removed,
    /// The host and the sandbox have both created it.
    Appeared,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let happened = match self.host {
            HostChange::Changed => "changed on the host too",
            HostChange::Removed => "removed on the host",
            HostChange::Appeared => "made on the host too",
        };
        write!(f, "{}: {happened}", crate::escape::escape(&self.path))
    }
}
