//! Groups that a killed process left behind.

use std::path::{Path, PathBuf};

use crate::host::Cgroups;
use crate::host::cgroup::V2;
use crate::owned_name::{Owner, left_behind};
use crate::systemd::SUFFIX;

/// Removes empty groups whose owner is gone. One that still holds a process stays: its processes are about to end.
pub(crate) fn remove_stale(cgroups: &Cgroups) {
    match cgroups {
        Cgroups::V1(groups) => {
            [&groups.memory, &groups.cpu, &groups.pids]
                .into_iter()
                .flatten()
                .for_each(|f| sweep(f));
        }
        // Scopes vanish by themselves, but for those with a keeper in them.
        Cgroups::V2(V2 {
            folder,
            scope: Some(_),
            ..
        }) => siblings(folder).for_each(|f| sweep(&f)),
        Cgroups::V2(groups) => sweep(&groups.folder),
        Cgroups::None { .. } => {}
    }
}

/// The scopes of processes of ours, the own one included.
fn siblings(scope: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = scope.parent().map(std::fs::read_dir);
    let entries = entries.and_then(Result::ok).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            name.and_then(Owner::of).is_some()
        })
        .map(|entry| entry.path())
}

fn sweep(parent: &Path) {
    for group in left_behind(parent) {
        if let Err(cause) = std::fs::remove_dir(&group) {
            tracing::debug!(group = %group.display(), %cause, "a stale control group stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owned_name::fresh;

    #[test]
    fn only_what_a_dead_process_left_goes() {
        let parent = tempfile::tempdir().expect("a folder");
        let dead = Owner::dead();
        let keep = [fresh(), "sandbox-other".to_owned()];
        let go = format!("{}0", dead.prefix());
        for name in keep.iter().chain([&go]) {
            std::fs::create_dir(parent.path().join(name)).expect("made");
        }
        sweep(parent.path());
        assert!(keep.iter().all(|name| parent.path().join(name).exists()));
        assert!(!parent.path().join(go).exists());
    }

    #[test]
    fn scopes_of_others_are_not_entered() {
        let slice = tempfile::tempdir().expect("a folder");
        let own = slice.path().join(fresh() + SUFFIX);
        let other = slice.path().join(fresh() + SUFFIX);
        for folder in [&own, &other, &slice.path().join("session-1.scope")] {
            std::fs::create_dir(folder).expect("made");
        }
        let mut found: Vec<_> = siblings(&own).collect();
        found.sort();
        assert_eq!(found, [own, other]);
    }
}
