//! Groups that a killed process left behind.

use std::path::{Path, PathBuf};

use sandbox_host::Owner;

use crate::host::Cgroups;
use crate::host::cgroup::V2;
use crate::owned_name::leftovers_in;
use crate::systemd::SUFFIX;

/// Removes empty groups whose owner is gone. Returns what could not be removed, and why. Groups
/// with processes are in use: they belong to a detached sandbox, or their processes are about to
/// end.
pub(crate) fn remove_leftovers(cgroups: &Cgroups) -> Vec<String> {
    match cgroups {
        Cgroups::V1(groups) => [&groups.memory, &groups.cpu, &groups.pids]
            .into_iter()
            .flatten()
            .flat_map(|folder| sweep(folder))
            .collect(),
        // systemd removes a scope with its last process, so only scopes with a supervisor remain.
        Cgroups::V2(V2 {
            folder,
            scope: Some(_),
            ..
        }) => siblings(folder).flat_map(|folder| sweep(&folder)).collect(),
        Cgroups::V2(groups) => sweep(&groups.folder),
        Cgroups::None { .. } => Vec::new(),
    }
}

/// The scopes of all processes that use this library, including our own.
fn siblings(scope: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = scope.parent().map(std::fs::read_dir);
    let entries = entries.and_then(Result::ok).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            name.and_then(Owner::from_file_name).is_some()
        })
        .map(|entry| entry.path())
}

fn sweep(parent: &Path) -> Vec<String> {
    let removed = leftovers_in(parent).map(|group| (std::fs::remove_dir(&group), group));
    let stays = removed.filter_map(|(removed, group)| match removed {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound && !has_processes(&group) => {
            Some(format!("{}: {cause}", group.display()))
        }
        _ => None,
    });
    stays.collect()
}

fn has_processes(group: &Path) -> bool {
    // On v2 this includes groups below; v1 does not have the file.
    match std::fs::read_to_string(group.join("cgroup.events")) {
        Ok(events) => events.lines().any(|line| line == "populated 1"),
        Err(_) => std::fs::read_to_string(group.join("cgroup.procs"))
            .is_ok_and(|processes| !processes.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::owned_name::unique_name;

    #[test]
    fn only_groups_of_ended_owners_are_removed() {
        let parent = tempfile::tempdir().expect("a folder");
        let ended = Owner::ended_for_tests();
        let keep = [unique_name(), "sandbox-other".to_owned()];
        let go = ended.file_name(0);
        for name in keep.iter().chain([&go]) {
            std::fs::create_dir(parent.path().join(name)).expect("made");
        }
        assert_eq!(sweep(parent.path()), [] as [String; 0]);
        assert!(keep.iter().all(|name| parent.path().join(name).exists()));
        assert!(!parent.path().join(go).exists());
    }

    #[test]
    fn group_with_processes_is_kept_silently() {
        let parent = tempfile::tempdir().expect("a folder");
        let group = |number: u64| {
            parent
                .path()
                .join(Owner::ended_for_tests().file_name(number))
        };
        for (number, processes) in [(0, ""), (1, "7\n")] {
            let group = group(number);
            std::fs::create_dir(&group).expect("made");
            std::fs::write(group.join("cgroup.procs"), processes).expect("written");
        }
        let stays = sweep(parent.path());
        assert_eq!(stays.len(), 1, "{stays:?}");
        assert!(stays[0].contains(&*group(0).to_string_lossy()), "{stays:?}");
    }

    #[test]
    fn only_own_scopes_are_swept() {
        let slice = tempfile::tempdir().expect("a folder");
        let own = slice.path().join(unique_name() + SUFFIX);
        let other = slice.path().join(unique_name() + SUFFIX);
        for folder in [&own, &other, &slice.path().join("session-1.scope")] {
            std::fs::create_dir(folder).expect("made");
        }
        let found: BTreeSet<_> = siblings(&own).collect();
        assert_eq!(found, BTreeSet::from([own, other]));
    }
}
