//! v1: a folder for each controller.

use std::path::Path;

use super::{GroupFolder, GroupSetting, Limits, group_setting};
use crate::host::cgroup::V1;
use crate::owned_name;

/// The kernel's default period of the CPU quota, in microseconds.
const QUOTA_PERIOD_US: u64 = 100_000;

pub(super) fn plan(groups: &V1, limits: &Limits) -> Vec<GroupFolder> {
    let mut folders = Vec::new();
    if let (Some(parent), Some(memory)) = (&groups.memory, limits.memory) {
        let part = part(&mut folders, parent);
        part.settings
            .push(group_setting("memory.limit_in_bytes", memory));
        // The limit of memory plus swap, so that swap adds nothing. Missing if the kernel does not
        // account swap.
        let with_swap = group_setting("memory.memsw.limit_in_bytes", memory);
        part.settings.push(GroupSetting {
            optional: true,
            ..with_swap
        });
        part.counter = Some("memory.oom_control");
    }
    if let (Some(parent), Some(milli)) = (&groups.cpu, limits.cpu_milli) {
        let quota = u64::from(milli) * QUOTA_PERIOD_US / 1000;
        part(&mut folders, parent)
            .settings
            .push(group_setting("cpu.cfs_quota_us", quota));
    }
    if let Some(parent) = groups
        .pids
        .as_ref()
        .filter(|_| limits.pids.is_some() || limits.track)
    {
        let part = part(&mut folders, parent);
        part.settings
            .extend(limits.pids.map(|pids| group_setting("pids.max", pids)));
    }
    folders
}

/// The folder below `parent`. Controllers that are mounted together share one.
fn part<'a>(folders: &'a mut Vec<GroupFolder>, parent: &Path) -> &'a mut GroupFolder {
    let known = folders
        .iter()
        .position(|part| part.folder.parent() == Some(parent));
    let index = known.unwrap_or_else(|| {
        let folder = parent.join(owned_name::unique_name());
        folders.push(GroupFolder {
            folder,
            settings: Vec::new(),
            counter: None,
        });
        folders.len() - 1
    });
    &mut folders[index]
}

#[cfg(test)]
mod tests {
    use super::super::Group;
    use super::*;
    use crate::host::Cgroups;

    const LIMITS: Limits = Limits {
        memory: Some(64 << 20),
        cpu_milli: Some(1500),
        pids: Some(40),
        track: false,
    };

    #[test]
    fn controllers_on_one_mount_share_a_group() {
        let groups = V1 {
            memory: Some("/cg/memory".into()),
            cpu: Some("/cg/both".into()),
            pids: Some("/cg/both".into()),
            ..V1::default()
        };
        let folders = plan(&groups, &LIMITS);
        assert_eq!(folders.len(), 2);
        let files = folders[1]
            .settings
            .iter()
            .map(|setting| (setting.file, setting.value.as_str()));
        assert_eq!(
            files.collect::<Vec<_>>(),
            [("cpu.cfs_quota_us", "150000"), ("pids.max", "40")]
        );
    }

    #[test]
    fn group_is_created_only_for_limits_or_tracking() {
        let groups = V1 {
            pids: Some("/cg/pids".into()),
            ..V1::default()
        };
        assert_eq!(plan(&groups, &Limits::default()), []);
        let track = plan(
            &groups,
            &Limits {
                track: true,
                ..Limits::default()
            },
        );
        assert_eq!(track.len(), 1);
        assert_eq!(track[0].settings, []);
    }

    #[test]
    fn removed_group_is_distinguished_from_other_errors() {
        let place = tempfile::tempdir().expect("a folder");
        let groups = V1 {
            pids: Some(place.path().join("gone")),
            ..V1::default()
        };
        let cgroups = Cgroups::V1(groups);
        let group = Group::plan(&cgroups, &LIMITS).expect("limits");
        let error = group.create().expect_err("its parent is not there");
        assert!(super::super::was_removed(&error), "{error}");
        let error = std::io::Error::from_raw_os_error(13);
        assert!(!super::super::was_removed(&error), "{error}");
    }

    #[test]
    fn limits_are_set_and_groups_removed() {
        let cgroups = Cgroups::detect();
        let Cgroups::V1(V1 {
            memory: Some(_),
            cpu: Some(_),
            pids: Some(_),
            ..
        }) = &cgroups
        else {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("procfs");
            let is_mounted = |controller: &&str| {
                let hierarchies = mounts
                    .lines()
                    .filter_map(|line| line.split_once(" - cgroup "));
                let mut options = hierarchies.flat_map(|(_, source)| source.split([' ', ',']));
                options.any(|option| option == *controller)
            };
            let is_usable = rustix::process::geteuid().is_root()
                && ["memory", "cpu", "pids"].iter().all(is_mounted);
            assert!(!is_usable, "version 1 is mounted, but not detected");
            return;
        };
        let group = Group::plan(&cgroups, &LIMITS).expect("limits");
        group.create().expect("made");
        let folders = group.owned().clone();
        assert_eq!((folders.len(), group.join_files().len()), (3, 3));
        let read = |file: &str| {
            let path = folders
                .iter()
                .map(|folder| folder.join(file))
                .find(|path| path.exists());
            std::fs::read_to_string(path.expect("one of them has it")).expect("readable")
        };
        assert_eq!(read("memory.limit_in_bytes").trim(), (64 << 20).to_string());
        assert_eq!(read("cpu.cfs_quota_us").trim(), "150000");
        assert_eq!(read("pids.max").trim(), "40");
        assert_eq!(group.oom_kills(), Some(0));
        assert_eq!(group.processes(), Vec::<i32>::new());
        assert!(!group.kill(), "version 1 cannot");
        group.remove().expect("removed");
        assert!(folders.iter().all(|folder| !folder.exists()));
    }
}
