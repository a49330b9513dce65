//! v2: one folder for all controllers.

use super::{GroupFolder, GroupSetting, Limits, group_setting};
use crate::host::cgroup::V2;
use crate::owned_name;

/// The kernel's default period of the CPU quota, in microseconds.
const QUOTA_PERIOD_US: u64 = 100_000;

pub(super) fn plan(groups: &V2, limits: &Limits) -> Vec<GroupFolder> {
    let memory = limits.memory.filter(|_| groups.memory);
    let cpu = limits.cpu_milli.filter(|_| groups.cpu);
    let pids = limits.pids.filter(|_| groups.pids);
    if memory.is_none() && cpu.is_none() && pids.is_none() && !limits.track {
        return Vec::new();
    }
    let mut settings = Vec::new();
    if let Some(memory) = memory {
        settings.push(group_setting("memory.max", memory));
        // Missing if the kernel does not account swap.
        settings.push(GroupSetting {
            optional: true,
            ..group_setting("memory.swap.max", 0)
        });
    }
    if let Some(milli) = cpu {
        let quota = u64::from(milli) * QUOTA_PERIOD_US / 1000;
        settings.push(group_setting(
            "cpu.max",
            format!("{quota} {QUOTA_PERIOD_US}"),
        ));
    }
    settings.extend(pids.map(|pids| group_setting("pids.max", pids)));
    let folder = groups.folder.join(owned_name::unique_name());
    vec![GroupFolder {
        folder,
        settings,
        counter: memory.map(|_| "memory.events"),
    }]
}

#[cfg(test)]
mod tests {
    use super::super::Group;
    use super::*;
    use crate::host::Cgroups;
    use crate::host::cgroup::Swap;

    fn groups(folder: &std::path::Path, memory: bool) -> Cgroups {
        let folder = folder.into();
        Cgroups::V2(V2 {
            folder,
            memory,
            cpu: true,
            pids: true,
            swap: Swap::Absent,
            scope: None,
        })
    }

    const LIMITS: Limits = Limits {
        memory: Some(1 << 20),
        cpu_milli: Some(500),
        pids: Some(9),
        track: false,
    };

    #[test]
    fn missing_controller_files_are_not_written() {
        let parent = tempfile::tempdir().expect("a folder");
        let group = Group::plan(&groups(parent.path(), false), &LIMITS).expect("limits");
        group.create().expect("made");
        let read = |file: &str| std::fs::read_to_string(group.folders[0].folder.join(file));
        assert_eq!(read("cpu.max").expect("written"), "50000 100000");
        assert_eq!(read("pids.max").expect("written"), "9");
        assert!(read("memory.max").is_err());
        assert!(group.folder().is_some() && group.join_files().is_empty());
        assert_eq!(group.oom_kills(), None);
        assert!(
            group.try_remove().is_err(),
            "this is no control group, so its files stay"
        );
        std::fs::remove_dir_all(&group.folders[0].folder).expect("removed");
        group.remove().expect("gone");
    }

    #[test]
    fn failed_creation_names_the_group_and_leaves_nothing() {
        let parent = tempfile::tempdir().expect("a folder");
        let group = Group::plan(&groups(&parent.path().join("gone"), true), &LIMITS);
        let group = group.expect("limits");
        let error = group.create().expect_err("no parent").to_string();
        assert!(error.contains("gone/sandbox-"), "{error}");
        group.remove().expect("nothing is left");
    }
}
