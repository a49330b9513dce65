//! Counts the resources of this process and its sandboxes on the host.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::support::own_groups;

/// Counted resources. None may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Census {
    pub children: usize,
    pub descriptors: usize,
    pub groups: usize,
    pub taken_ranges: usize,
    /// Entries in the state folder, without those that the next sandbox reuses.
    pub folders: usize,
}

impl Census {
    /// Counts all resources.
    pub fn take(state: &Path) -> Self {
        Self {
            children: children(),
            descriptors: entries(Path::new("/proc/self/fd")),
            groups: own_groups().len(),
            taken_ranges: taken_ranges(state),
            folders: folders(state),
        }
    }
}

/// The mounts that this process sees.
pub struct MountTable(BTreeSet<String>);

impl MountTable {
    /// Reads the mounts.
    pub fn now() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("procfs");
        Self(mounts.lines().map(str::to_owned).collect())
    }

    /// Asserts that there are no other mounts now. Some may have been removed, with an engine's
    /// container and its folders.
    #[track_caller]
    pub fn assert_none_new(&self) {
        let now = Self::now();
        let new = now.0.difference(&self.0).collect::<Vec<_>>();
        assert!(new.is_empty(), "{new:#?}");
    }
}

/// Resident memory of this process in bytes.
pub fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("procfs");
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

/// The descendants of this process with their memory in bytes. Shared pages are divided by the
/// number of processes that share them.
pub fn memory_below() -> (usize, u64) {
    let mut found = vec![std::process::id()];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children_of(*pid));
        next += 1;
    }
    let memory = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or_default() * 1024
    };
    let below = &found[1..];
    (below.len(), below.iter().map(memory).sum())
}

fn children() -> usize {
    children_of(std::process::id()).len()
}

/// The children of a process, without the helper that shares its memory and stays in its systemd
/// scope.
pub fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids = list.split_whitespace().map(|pid| pid.parse());
            pids.collect::<Result<Vec<u32>, _>>().expect("numbers")
        })
        .filter(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            !name.is_ok_and(|name| name == "sandbox-scope\n")
        })
        .collect()
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

fn taken_ranges(state: &Path) -> usize {
    let files = fs::read_dir(state.join("uids")).into_iter().flatten();
    let taken = files.flatten().filter(|entry| {
        let file = File::open(entry.path()).expect("a lock of ours");
        flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err()
    });
    taken.count()
}

fn folders(state: &Path) -> usize {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let kept = |name: &str| {
        matches!(
            name,
            "uids" | "etc" | "root" | "scratch" | "sandboxes" | "attached"
        )
    };
    let others = entries
        .filter(|entry| !entry.file_name().to_str().is_some_and(kept))
        .count();
    let records = fs::read_dir(state.join("attached")).into_iter().flatten();
    others + records.count()
}

/// The test's own state folder.
pub fn state_folder() -> tempfile::TempDir {
    let mut folder = tempfile::Builder::new();
    folder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    folder.tempdir().expect("a folder")
}
