//! The limits that the control groups of this host put on a process of this host.

use std::path::{Path, PathBuf};

use crate::probe::Trouble;

/// A limit, by the controller that has it and the names of its file in control groups of version 1 and 2.
#[derive(Debug, Clone, Copy)]
pub struct GroupLimit {
    /// `memory`.
    pub controller: &'static str,
    /// `memory.memsw.limit_in_bytes`.
    pub first: &'static str,
    /// `memory.swap.max`.
    pub second: &'static str,
}

/// The least limit of any group that the process is in; `None` without one.
///
/// # Errors
///
/// When the kernel's tables cannot be read, or have no such controller.
pub fn least(pid: i32, limit: GroupLimit) -> Result<Option<u64>, Trouble> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let place = place(&mounts, &groups, limit).ok_or_else(|| {
        Trouble::new(format!(
            "this host shows no control group of {} for a process",
            limit.controller
        ))
    })?;
    let folders = place.folder.ancestors();
    let inside = folders.take_while(|folder| folder.starts_with(&place.mount));
    let limits = inside.filter_map(|folder| number(&folder.join(place.file)));
    Ok(limits.min())
}

/// Version 1 writes "no limit" as a number beyond any machine, which is a limit that bounds nothing.
fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

struct Place {
    mount: PathBuf,
    folder: PathBuf,
    file: &'static str,
}

fn place(mounts: &str, groups: &str, limit: GroupLimit) -> Option<Place> {
    let group = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            controllers
                .split(',')
                .any(|name| name == wanted)
                .then_some(path)
        })
    };
    // A controller is in one hierarchy: one of its own, or the common one, which names none.
    let (kind, path, file) = match group(limit.controller) {
        Some(path) => ("cgroup", path, limit.first),
        None => ("cgroup2", group("")?, limit.second),
    };
    mounts.lines().find_map(|line| {
        let (place, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let mut options = (system.next()? == kind).then(|| system.nth(1))??.split(',');
        if kind == "cgroup" && !options.any(|name| name == limit.controller) {
            return None;
        }
        let mut fields = place.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        let mount = PathBuf::from(mount);
        Some(Place {
            folder: mount.join(below),
            mount,
            file,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWAP: GroupLimit = GroupLimit {
        controller: "memory",
        first: "memory.memsw.limit_in_bytes",
        second: "memory.swap.max",
    };

    fn found(mounts: &str, groups: &str) -> Option<(PathBuf, &'static str)> {
        place(mounts, groups, SWAP).map(|place| (place.folder, place.file))
    }

    #[test]
    fn a_group_is_found_in_either_version() {
        let first = "\
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 25 0:28 /outer /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
";
        let groups = "8:cpu,cpuacct:/outer/box\n7:memory:/outer/box\n0::/other\n";
        assert_eq!(
            found(first, groups),
            Some(("/sys/fs/cgroup/memory/box".into(), SWAP.first))
        );
        let second = "31 25 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            found(second, "0::/box\n"),
            Some(("/sys/fs/cgroup/box".into(), SWAP.second))
        );
        assert_eq!(found(second, "7:memory:/outer/box\n"), None);
        assert_eq!(found(first, ""), None);
    }
}
