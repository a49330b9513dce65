//! The control groups (cgroups) of a process of this host, and their limits.

use std::path::{Path, PathBuf};

use crate::probe::ProbeError;

/// A limit, by its controller and its file names in cgroup v1 and v2.
#[derive(Debug, Clone, Copy)]
pub struct GroupLimit {
    /// The controller, such as `memory`.
    pub controller: &'static str,
    /// The file in v1, such as `memory.memsw.limit_in_bytes`.
    pub first: &'static str,
    /// The file in v2, such as `memory.swap.max`.
    pub second: &'static str,
}

/// The smallest limit among the process's group and its ancestors; `None` without a limit.
///
/// # Errors
///
/// If the kernel's tables cannot be read, or list no such controller.
pub fn smallest_limit(pid: i32, limit: GroupLimit) -> Result<Option<u64>, ProbeError> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let limit_file = limit_file(&mounts, &groups, limit).ok_or_else(|| {
        ProbeError::new(format!(
            "this host has no {} control group for the process",
            limit.controller
        ))
    })?;
    let folders = limit_file.folder.ancestors();
    let inside = folders.take_while(|folder| folder.starts_with(&limit_file.mount));
    let limits = inside.filter_map(|folder| number(&folder.join(limit_file.file)));
    Ok(limits.min())
}

/// The processors that the process's group and its ancestors may use, in thousandths; `None` without
/// a quota.
///
/// # Errors
///
/// If the kernel's tables cannot be read, or list no such controller.
pub fn processors(pid: i32) -> Result<Option<u32>, ProbeError> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let quota = GroupLimit {
        controller: "cpu",
        first: "cpu.cfs_quota_us",
        second: "cpu.max",
    };
    let quota_file = limit_file(&mounts, &groups, quota)
        .ok_or_else(|| ProbeError::new("this host has no cpu control group for the process"))?;
    let folders = quota_file.folder.ancestors();
    let inside = folders.take_while(|folder| folder.starts_with(&quota_file.mount));
    let shares = inside.filter_map(|folder| {
        let text = std::fs::read_to_string(folder.join(quota_file.file)).ok()?;
        // cgroup v2 has both numbers in one file.
        let mut words = text.split_whitespace();
        let quota = words.next()?.parse::<u64>().ok()?;
        let period = match words.next() {
            Some(period) => period.parse::<u64>().ok()?,
            None => number(&folder.join("cpu.cfs_period_us"))?,
        };
        u32::try_from((quota * 1000).checked_div(period)?).ok()
    });
    Ok(shares.min())
}

/// cgroup v1 writes "no limit" as a number larger than any machine has.
fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

struct LimitFile {
    mount: PathBuf,
    folder: PathBuf,
    file: &'static str,
}

fn limit_file(mounts: &str, groups: &str, limit: GroupLimit) -> Option<LimitFile> {
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
    // A controller is in a v1 hierarchy, or in the common v2 hierarchy, which names no controller.
    let (kind, path, file) = match group(limit.controller) {
        Some(path) => ("cgroup", path, limit.first),
        None => ("cgroup2", group("")?, limit.second),
    };
    let (mount, folder) = folder(mounts, (kind == "cgroup").then_some(limit.controller), path)?;
    Some(LimitFile {
        mount,
        folder,
        file,
    })
}

/// The mount point of a hierarchy, and the folder of a group in it. The hierarchy of v2 names no
/// controller.
fn folder(mounts: &str, controller: Option<&str>, path: &str) -> Option<(PathBuf, PathBuf)> {
    let kind = if controller.is_some() {
        "cgroup"
    } else {
        "cgroup2"
    };
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let mut options = (system.next()? == kind).then(|| system.nth(1))??.split(',');
        if controller.is_some_and(|controller| !options.any(|name| name == controller)) {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        let mount = PathBuf::from(mount);
        let folder = mount.join(below);
        Some((mount, folder))
    })
}

/// The folders of the process's groups in which this process is not.
///
/// # Errors
///
/// If the kernel's tables cannot be read.
pub fn own_folders(pid: i32) -> Result<Vec<PathBuf>, ProbeError> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let of_suite = std::fs::read_to_string("/proc/self/cgroup")?;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let own = groups
        .lines()
        .filter(|line| !of_suite.lines().any(|other| other == *line));
    let folders = own.filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let controller = controllers
            .split(',')
            .next()
            .filter(|name| !name.is_empty());
        Some(folder(&mounts, controller, path)?.1)
    });
    Ok(folders.collect())
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
        limit_file(mounts, groups, SWAP).map(|limit_file| (limit_file.folder, limit_file.file))
    }

    #[test]
    fn limit_file_is_found_in_cgroup_v1_and_v2() {
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
