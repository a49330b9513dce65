//! The control groups of a sandbox.

mod name;
mod stale;
mod v1;
mod v2;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::Cgroups;

pub(crate) use stale::remove_stale;

/// Processes that are not the code's: the agent, and supervisors of executions that run at the same time. A group's limit
/// of processes has room for them beyond what the plan allows the code.
pub(crate) const AGENT_PROCESSES: u64 = 8;

/// What a sandbox may use. `None` leaves a resource alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of memory, swap included.
    pub(crate) memory: Option<u64>,
    /// Thousandths of a processor.
    pub(crate) cpu_milli: Option<u32>,
    /// Processes and threads.
    pub(crate) pids: Option<u64>,
    /// Make a group even if nothing is limited, so that every process can be found.
    pub(crate) track: bool,
}

/// A sandbox's groups: one folder in version 2, up to one for each controller in version 1. Dropping it tries to remove
/// them once; [`Group::remove`] says whether that worked.
#[derive(Debug, Default)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    /// The file with the counter of kills, open for as long as the group lives.
    events: Option<File>,
    /// Version 1: the lists of threads that a process writes itself into.
    join: Vec<OwnedFd>,
    /// Version 2: the folder, for a clone right into it.
    folder: Option<OwnedFd>,
}

impl Group {
    /// Makes the groups; `None` where the host has none, or nothing is asked for.
    pub(crate) fn create(cgroups: &Cgroups, limits: &Limits) -> io::Result<Option<Self>> {
        let group = match cgroups {
            Cgroups::V1(groups) => v1::create(groups, limits)?,
            Cgroups::V2(groups) => v2::create(groups, limits)?,
            Cgroups::None { .. } => return Ok(None),
        };
        Ok((!group.folders.is_empty()).then_some(group))
    }

    /// Descriptors into which a new process writes `0` to move itself into the groups.
    pub(crate) fn join(&self) -> &[OwnedFd] {
        &self.join
    }

    /// The folder that a new process can be cloned into.
    pub(crate) fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.folder.as_ref().map(AsFd::as_fd)
    }

    /// How many processes of the group the kernel has killed for memory; `None` where memory is not limited.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let mut text = [0; 512];
        let count = self.events.as_ref()?.read_at(&mut text, 0).ok()?;
        oom_kills(std::str::from_utf8(&text[..count]).ok()?)
    }

    /// Every process of the groups.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let lists = self.folders.iter().map(|folder| folder.join("cgroup.procs"));
        let text = lists.filter_map(|list| std::fs::read_to_string(list).ok()).collect::<String>();
        let mut pids = text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Kills every process of the group at once, where the kernel can (version 2, Linux 5.14).
    pub(crate) fn kill(&self) -> bool {
        self.folder.is_some()
            && self.folders.iter().all(|folder| write(folder, "cgroup.kill", "1").is_ok())
    }

    /// Removes the groups. A process that has just ended can keep one for a moment, hence the retries: up to half a second.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        const ATTEMPTS: usize = 10;
        let mut pause = Duration::from_micros(200);
        for _ in 1..ATTEMPTS {
            if self.try_remove().is_ok() {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        self.try_remove()
    }

    /// Removes the groups, if no process keeps one.
    pub(crate) fn try_remove(&mut self) -> io::Result<()> {
        self.join.clear();
        self.events = None;
        self.folder = None;
        let mut result = Ok(());
        self.folders.retain(|folder| match std::fs::remove_dir(folder) {
            Ok(()) => false,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => false,
            Err(cause) => {
                let named = format!("{}: {cause}", folder.display());
                result = Err(io::Error::new(cause.kind(), named));
                true
            }
        });
        result
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            if let Err(cause) = std::fs::remove_dir(folder) {
                tracing::debug!(folder = %folder.display(), %cause, "a control group is left for the next sandbox to remove");
            }
        }
    }
}

fn oom_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

fn write(folder: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = folder.join(file);
    std::fs::write(&path, value)
        .map_err(|cause| io::Error::new(cause.kind(), format!("{}: {cause}", path.display())))
}

fn make_folder(parent: &Path) -> io::Result<PathBuf> {
    let folder = parent.join(name::fresh());
    std::fs::create_dir(&folder)
        .map_err(|cause| io::Error::new(cause.kind(), format!("{}: {cause}", folder.display())))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_kills_is_read_from_both_versions() {
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 9\noom 4\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(oom_kills("under_oom 0\n"), None);
    }
}
