//! v1: a folder for each controller.

use std::path::Path;

use super::{Limits, Part, Setting, setting};
use crate::host::cgroup::V1;
use crate::owned_name;

/// The kernel's default period of the CPU quota, in microseconds.
const PERIOD: u64 = 100_000;

pub(super) fn plan(groups: &V1, limits: &Limits) -> Vec<Part> {
    let mut parts = Vec::new();
    if let (Some(parent), Some(memory)) = (&groups.memory, limits.memory) {
        let part = part(&mut parts, parent);
        part.settings.push(setting("memory.limit_in_bytes", memory));
        // The limit of memory plus swap, so that swap adds nothing. Missing if the kernel does not
        // account swap.
        let with_swap = setting("memory.memsw.limit_in_bytes", memory);
        part.settings.push(Setting {
            optional: true,
            ..with_swap
        });
        part.counter = Some("memory.oom_control");
    }
    if let (Some(parent), Some(milli)) = (&groups.cpu, limits.cpu_milli) {
        let quota = u64::from(milli) * PERIOD / 1000;
        part(&mut parts, parent)
            .settings
            .push(setting("cpu.cfs_quota_us", quota));
    }
    if let Some(parent) = groups
        .pids
        .as_ref()
        .filter(|_| limits.pids.is_some() || limits.track)
    {
        let part = part(&mut parts, parent);
        part.settings
            .extend(limits.pids.map(|pids| setting("pids.max", pids)));
    }
    parts
}

/// The folder below `parent`. Controllers that are mounted together share one.
fn part<'a>(parts: &'a mut Vec<Part>, parent: &Path) -> &'a mut Part {
    let known = parts
        .iter()
        .position(|part| part.folder.parent() == Some(parent));
    let index = known.unwrap_or_else(|| {
        let folder = parent.join(owned_name::fresh());
        parts.push(Part {
            folder,
            settings: Vec::new(),
            counter: None,
        });
        parts.len() - 1
    });
    &mut parts[index]
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
    fn controllers_that_are_mounted_together_share_a_group() {
        let groups = V1 {
            memory: Some("/cg/memory".into()),
            cpu: Some("/cg/both".into()),
            pids: Some("/cg/both".into()),
            ..V1::default()
        };
        let parts = plan(&groups, &LIMITS);
        assert_eq!(parts.len(), 2);
        let files = parts[1]
            .settings
            .iter()
            .map(|setting| (setting.file, setting.value.as_str()));
        assert_eq!(
            files.collect::<Vec<_>>(),
            [("cpu.cfs_quota_us", "150000"), ("pids.max", "40")]
        );
    }

    #[test]
    fn a_folder_is_only_made_where_something_is_limited() {
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
    fn a_group_that_was_removed_is_told_from_one_that_cannot_be_made() {
        let place = tempfile::tempdir().expect("a folder");
        let groups = V1 {
            pids: Some(place.path().join("gone")),
            ..V1::default()
        };
        let cgroups = Cgroups::V1(groups);
        let group = Group::plan(&cgroups, &LIMITS).expect("limits");
        let error = group.create().expect_err("its parent is not there");
        assert!(super::super::is_gone(&error), "{error}");
        let error = std::io::Error::from_raw_os_error(13);
        assert!(!super::super::is_gone(&error), "{error}");
    }

    #[test]
    fn limits_are_set_and_folders_removed() {
        let cgroups = Cgroups::detect();
        let Cgroups::V1(V1 {
            memory: Some(_),
            cpu: Some(_),
            pids: Some(_),
            ..
        }) = &cgroups
        else {
            eprintln!("no control groups of version 1 that this user may use");
            return;
        };
        let group = Group::plan(&cgroups, &LIMITS).expect("limits");
        group.create().expect("made");
        let folders = group.left().clone();
        assert_eq!((folders.len(), group.join().len()), (3, 3));
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
