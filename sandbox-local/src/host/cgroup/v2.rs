//! v2: one hierarchy. A group that contains processes cannot have child groups with controllers
//! (except the root group). So a sandbox's group is created in a systemd scope. Without one, it is
//! created in the nearest group above ours that has enabled its controllers for children and that
//! we may write to.

use std::path::Path;
use std::sync::Arc;

use super::tables::Hierarchies;
use super::{Swap, V2, writable};
use crate::systemd::{Scope, Unavailable};

/// The groups in a scope, whose controllers are enabled.
pub(super) fn of_scope(scope: Scope, has_swap: bool) -> Result<V2, Unavailable> {
    let folder = scope.folder().to_owned();
    let mut groups = groups(&folder, swap(&folder, has_swap));
    if groups.count() == 0 {
        return Err(Unavailable {
            reason: format!("{} has none of memory, cpu and pids", scope.manager()),
            fix: scope.fix().into(),
        });
    }
    groups.scope = Some(Arc::new(scope));
    Ok(groups)
}

fn groups(folder: &Path, swap: Swap) -> V2 {
    let handed_down = handed_down(folder);
    let has = |controller: &str| handed_down.iter().any(|name| name == controller);
    V2 {
        folder: folder.into(),
        memory: has("memory"),
        cpu: has("cpu"),
        pids: has("pids"),
        swap,
        scope: None,
    }
}

/// `group` has the memory controller.
fn swap(group: &Path, has_swap: bool) -> Swap {
    match (group.join("memory.swap.max").exists(), has_swap) {
        (true, _) => Swap::Limited,
        (false, false) => Swap::Absent,
        (false, true) => Swap::Uncounted,
    }
}

/// The nearest usable group, or why there is none and what would help.
pub(super) fn detect(mounts: &Hierarchies, has_swap: bool) -> Result<V2, Unavailable> {
    let Some(hierarchy) = &mounts.v2 else {
        let fix = "mount -t cgroup2 none /sys/fs/cgroup";
        return Err(Unavailable {
            reason: "no hierarchy of control groups is mounted".into(),
            fix: fix.into(),
        });
    };
    let above = hierarchy
        .own
        .ancestors()
        .take_while(|group| group.starts_with(&hierarchy.mount));
    for group in above {
        let found = groups(group, swap(&hierarchy.own, has_swap));
        if found.count() == 0 {
            continue;
        }
        // Moving a process requires write access to the process list of the common ancestor.
        if !writable(group) || !writable(&group.join("cgroup.procs")) {
            return Err(refused(
                "no group above this process is writable for this user",
            ));
        }
        return Ok(found);
    }
    Err(refused(
        "no group above this process hands down memory, cpu or pids",
    ))
}

fn handed_down(group: &Path) -> Vec<String> {
    let names = std::fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    names.split_ascii_whitespace().map(str::to_owned).collect()
}

fn refused(reason: &str) -> Unavailable {
    Unavailable {
        reason: reason.to_owned(),
        fix: "have the administrator delegate a cgroup with the controllers cpu, memory and pids"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::Hierarchy;
    use super::*;

    fn mounts(mount: &Path, own: &Path) -> Hierarchies {
        let v2 = Hierarchy {
            controllers: Vec::new(),
            mount: mount.into(),
            own: own.into(),
        };
        Hierarchies {
            v1: Vec::new(),
            v2: Some(v2),
        }
    }

    #[test]
    fn nearest_group_with_enabled_controllers_is_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = folder.path();
        let slice = mount.join("user.slice/app.slice");
        let own = slice.join("shell.scope");
        std::fs::create_dir_all(&own).expect("folders");
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("written");
        write(&mount.join("cgroup.subtree_control"), "cpu memory pids\n");
        write(&slice.join("cgroup.subtree_control"), "memory pids\n");
        write(&slice.join("cgroup.procs"), "");
        write(&own.join("cgroup.subtree_control"), "\n");
        write(&own.join("memory.swap.max"), "max\n");

        let found = detect(&mounts(mount, &own), true).expect("usable");
        assert_eq!(found.folder, slice);
        assert!(found.memory && found.pids && !found.cpu);
        assert_eq!(found.swap, Swap::Limited);
    }

    #[test]
    fn missing_controllers_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let refusal = detect(&mounts(folder.path(), folder.path()), true).expect_err("empty");
        assert!(refusal.reason.contains("hands down"), "{refusal:?}");
        let refusal = detect(&Hierarchies::default(), true).expect_err("no mount");
        assert!(refusal.reason.contains("no hierarchy"), "{refusal:?}");
    }
}
