//! Version 2: one hierarchy, in which a group that holds processes cannot have groups with controllers below it (the root
//! group excepted). So a sandbox's group is made beside our own, in the nearest group above that has handed its controllers
//! down and that we may write to.

use std::path::Path;

use super::tables::Mounts;
use super::{Swap, V2, writable};

/// The nearest usable group, or why there is none and what would help.
pub(super) fn detect(mounts: &Mounts, has_swap: bool) -> Result<V2, (String, String)> {
    let Some(hierarchy) = &mounts.v2 else {
        let fix = "mount -t cgroup2 none /sys/fs/cgroup";
        return Err((
            "no hierarchy of control groups is mounted".into(),
            fix.into(),
        ));
    };
    let above = hierarchy
        .own
        .ancestors()
        .take_while(|group| group.starts_with(&hierarchy.mount));
    for group in above {
        let handed_down = handed_down(group);
        let has = |controller: &str| handed_down.iter().any(|name| name == controller);
        if !has("memory") && !has("cpu") && !has("pids") {
            continue;
        }
        // Moving a process takes write access to the process list of the group above both ends of the move.
        if !writable(group) || !writable(&group.join("cgroup.procs")) {
            return Err(refused(&format!(
                "the group {} is not writable for this user",
                group.display()
            )));
        }
        let counts_swap = hierarchy.own.join("memory.swap.max").exists();
        let swap = match (counts_swap, has_swap) {
            (true, _) => Swap::Limited,
            (false, false) => Swap::Absent,
            (false, true) => Swap::Uncounted,
        };
        return Ok(V2 {
            folder: group.into(),
            memory: has("memory"),
            cpu: has("cpu"),
            pids: has("pids"),
            swap,
        });
    }
    Err(refused(
        "no group above this process hands down memory, cpu or pids",
    ))
}

fn handed_down(group: &Path) -> Vec<String> {
    let names = std::fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    names.split_ascii_whitespace().map(str::to_owned).collect()
}

fn refused(reason: &str) -> (String, String) {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(std::path::PathBuf::from);
    let systemd = runtime.is_some_and(|runtime| runtime.join("systemd").is_dir());
    let fix = if systemd {
        "run under: systemd-run --user --scope -p Delegate=yes"
    } else {
        "have the administrator delegate a cgroup with the controllers cpu, memory and pids"
    };
    (reason.to_owned(), fix.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tables::Hierarchy;
    use super::*;

    fn mounts(mount: &Path, own: &Path) -> Mounts {
        let v2 = Hierarchy {
            controllers: Vec::new(),
            mount: mount.into(),
            own: own.into(),
        };
        Mounts {
            v1: Vec::new(),
            v2: Some(v2),
        }
    }

    #[test]
    fn the_nearest_group_that_hands_controllers_down_is_used() {
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
    fn nothing_handed_down_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let (reason, _) = detect(&mounts(folder.path(), folder.path()), true).expect_err("empty");
        assert!(reason.contains("hands down"), "{reason}");
        let (reason, _) = detect(&Mounts::default(), true).expect_err("no mount");
        assert!(reason.contains("no hierarchy"), "{reason}");
    }
}
