//! Version 2: one folder.

use std::fs::File;
use std::io;

use super::{Group, Limits, make_folder, write};
use crate::host::cgroup::V2;

/// The kernel's default period of the processor quota, in microseconds.
const PERIOD: u64 = 100_000;

pub(super) fn create(groups: &V2, limits: &Limits) -> io::Result<Group> {
    let memory = limits.memory.filter(|_| groups.memory);
    let cpu = limits.cpu_milli.filter(|_| groups.cpu);
    let pids = limits.pids.filter(|_| groups.pids);
    if memory.is_none() && cpu.is_none() && pids.is_none() && !limits.track {
        return Ok(Group::default());
    }
    let folder = make_folder(&groups.folder)?;
    let mut group = Group::default();
    group.folders.push(folder.clone());
    if let Some(memory) = memory {
        write(&folder, "memory.max", &memory.to_string())?;
        // Missing where the kernel does not count swap.
        match write(&folder, "memory.swap.max", "0") {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        group.events = Some(File::open(folder.join("memory.events"))?);
    }
    if let Some(milli) = cpu {
        write(&folder, "cpu.max", &format!("{} {PERIOD}", u64::from(milli) * PERIOD / 1000))?;
    }
    if let Some(pids) = pids {
        write(&folder, "pids.max", &pids.to_string())?;
    }
    group.folder = Some(File::open(&folder)?.into());
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::cgroup::Swap;

    #[test]
    fn without_a_controller_nothing_of_it_is_written() {
        let parent = tempfile::tempdir().expect("a folder");
        let groups = V2 {
            folder: parent.path().into(),
            memory: false,
            cpu: true,
            pids: true,
            swap: Swap::Absent,
        };
        let limits =
            Limits { memory: Some(1 << 20), cpu_milli: Some(500), pids: Some(9), track: false };
        let group = create(&groups, &limits).expect("made");
        let read = |file: &str| std::fs::read_to_string(group.folders[0].join(file));
        assert_eq!(read("cpu.max").expect("written"), "50000 100000");
        assert_eq!(read("pids.max").expect("written"), "9");
        assert!(read("memory.max").is_err());
        assert!(group.folder().is_some());
        assert_eq!(group.oom_kills(), None);
        std::fs::remove_dir_all(&group.folders[0]).expect("removed");
    }
}
