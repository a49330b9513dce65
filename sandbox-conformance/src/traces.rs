//! What a measurement leaves on this host: child processes, and control groups and folders that
//! bear the name of this process.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use sandbox_host::{Owner, state};
use tokio::time::Instant;

/// Where control groups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// How deep control groups and folders of the local tier's state are searched.
const GROUP_DEPTH: u32 = 8;
const STATE_DEPTH: u32 = 2;

/// How long ended processes and groups may take to disappear. A busy kernel keeps a group for some
/// hundred milliseconds.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// What there is now of this process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Traces(BTreeSet<String>);

impl Traces {
    /// Reads it from the kernel.
    #[must_use]
    pub fn now() -> Self {
        // The first process of a PID namespace gets the orphans of all others.
        let mut traces = match std::process::id() {
            1 => BTreeSet::new(),
            _ => children(),
        };
        own_folders(Path::new(CGROUPS), GROUP_DEPTH, &mut traces);
        let state = state::folder(None, state::user());
        own_folders(&state, STATE_DEPTH, &mut traces);
        Self(traces)
    }

    /// What has been added and stays for five seconds.
    pub async fn added(&self) -> Vec<String> {
        let end = Instant::now() + LIMIT;
        loop {
            let now = Self::now();
            let added: Vec<_> = now.0.difference(&self.0).cloned().collect();
            if added.is_empty() || Instant::now() > end {
                return added;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The process that holds the local tier's systemd scope, one for all sandboxes of a process. It ends
/// with this process.
const SCOPE_HELPER: &str = "sandbox-scope";

/// The children of this process.
fn children() -> BTreeSet<String> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    // A process may end meanwhile.
    let statuses = entries.filter_map(|entry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        Some((entry.file_name(), status))
    });
    let own_ones = statuses.filter(|(_, status)| status.contains(&own));
    let named = own_ones.map(|(pid, status)| {
        let name = status.lines().next().unwrap_or_default();
        (pid, name.trim_start_matches("Name:\t").to_owned())
    });
    named
        .filter(|(_, name)| name != SCOPE_HELPER)
        .map(|(pid, name)| format!("process {} ({name})", pid.display()))
        .collect()
}

/// The folders below with the name of this process.
fn own_folders(folder: &Path, depth: u32, found: &mut BTreeSet<String>) {
    // A folder that cannot be read has another owner.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        let owner = name.to_str().and_then(Owner::from_file_name);
        if owner == Some(Owner::current()) {
            found.insert(format!("folder {}", entry.path().display()));
        } else if depth > 1 {
            own_folders(&entry.path(), depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_this_process_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let own = root
            .path()
            .join("inner")
            .join(Owner::current().file_name(7));
        for folder in [&own, &root.path().join("inner/sandbox-1-2-3-4")] {
            std::fs::create_dir_all(folder).expect("made");
        }
        let mut found = BTreeSet::new();
        own_folders(root.path(), 1, &mut found);
        assert_eq!(found, BTreeSet::new());
        own_folders(root.path(), 2, &mut found);
        assert_eq!(found, BTreeSet::from([format!("folder {}", own.display())]));
    }

    #[tokio::test]
    async fn running_child_is_added_until_it_is_reaped() {
        let before = Traces::now();
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("60").spawn().expect("a process");
        // A new process may still have its parent's name.
        let name = format!("process {} (", child.id());
        let has_child = |found: &str| found.starts_with(&name);
        assert!(Traces::now().0.iter().any(|found| has_child(found)));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(!before.added().await.iter().any(|found| has_child(found)));
    }
}
