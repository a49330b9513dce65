//! Version 1: a folder for each controller.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::{Group, Limits, make_folder, write};
use crate::host::cgroup::V1;

/// The kernel's default period of the processor quota, in microseconds.
const PERIOD: u64 = 100_000;

pub(super) fn create(groups: &V1, limits: &Limits) -> io::Result<Group> {
    let mut group = Group::default();
    if let (Some(parent), Some(memory)) = (&groups.memory, limits.memory) {
        let folder = enter(&mut group, parent)?;
        write(&folder, "memory.limit_in_bytes", &memory.to_string())?;
        // Memory and swap together, so that swap adds nothing. Missing where the kernel does not count swap.
        match write(&folder, "memory.memsw.limit_in_bytes", &memory.to_string()) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        group.events = Some(File::open(folder.join("memory.oom_control"))?);
    }
    if let (Some(parent), Some(milli)) = (&groups.cpu, limits.cpu_milli) {
        let folder = enter(&mut group, parent)?;
        write(&folder, "cpu.cfs_quota_us", &(u64::from(milli) * PERIOD / 1000).to_string())?;
    }
    if let Some(parent) = groups.pids.as_ref().filter(|_| limits.pids.is_some() || limits.track) {
        let folder = enter(&mut group, parent)?;
        if let Some(pids) = limits.pids {
            write(&folder, "pids.max", &pids.to_string())?;
        }
    }
    Ok(group)
}

/// Makes a group below `parent`. Controllers that are mounted together share one.
fn enter(group: &mut Group, parent: &Path) -> io::Result<std::path::PathBuf> {
    if let Some(shared) = group.folders.iter().find(|folder| folder.parent() == Some(parent)) {
        return Ok(shared.clone());
    }
    let folder = make_folder(parent)?;
    group.folders.push(folder.clone());
    // A thread that moves itself through `tasks` needs no lock on all forks of the host, which costs milliseconds.
    group.join.push(OpenOptions::new().write(true).open(folder.join("tasks"))?.into());
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Cgroups;

    /// The host's own groups, where it has version 1 and this process may use it.
    fn host() -> Option<V1> {
        match Cgroups::detect() {
            Cgroups::V1(groups) => Some(groups),
            _ => None,
        }
    }

    #[test]
    fn limits_are_set_and_folders_removed() {
        let Some(groups) = host() else {
            eprintln!("no control groups of version 1 here");
            return;
        };
        let limits = Limits {
            memory: Some(64 << 20),
            cpu_milli: Some(1500),
            pids: Some(40),
            track: false,
        };
        let mut group = create(&groups, &limits).expect("made");
        let folders = group.folders.clone();
        assert_eq!(folders.len(), 3);
        assert_eq!(group.join().len(), 3);
        let read = |file: &str| {
            let path = folders.iter().map(|folder| folder.join(file)).find(|path| path.exists());
            std::fs::read_to_string(path.expect("one of them has it")).expect("readable")
        };
        assert_eq!(read("memory.limit_in_bytes").trim(), (64 << 20).to_string());
        assert_eq!(read("cpu.cfs_quota_us").trim(), "150000");
        assert_eq!(read("pids.max").trim(), "40");
        assert_eq!(group.oom_kills(), Some(0));
        assert_eq!(group.processes(), Vec::<i32>::new());
        group.remove().expect("removed");
        assert!(folders.iter().all(|folder| !folder.exists()));
    }

    #[test]
    fn a_folder_is_only_made_where_something_is_limited() {
        let Some(groups) = host() else {
            eprintln!("no control groups of version 1 here");
            return;
        };
        let none = create(&groups, &Limits::default()).expect("made");
        assert!(none.folders.is_empty());
        let track = create(&groups, &Limits { track: true, ..Limits::default() }).expect("made");
        assert_eq!(track.folders.len(), 1);
    }
}
