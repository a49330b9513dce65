//! The kernel's own count of kills for memory, read from the container's cgroup where the engine runs on this host.

use std::path::{Path, PathBuf};

/// The file that counts a container's kills for memory, at the places where engines usually put it; the container's id makes
/// a mistake impossible. `None` where it is elsewhere.
pub(crate) fn usual_memory_events(container: &str) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    [
        format!("/docker/{container}"),
        format!("/system.slice/docker-{container}.scope"),
    ]
    .iter()
    .flat_map(|path| [format!("1:memory:{path}"), format!("0::{path}")])
    .filter_map(|cgroups| locate(&mounts, &cgroups, container))
    .find(|path| path.exists())
}

/// The file that counts the kills for memory of the container whose first process is `pid`.
///
/// `None` where that process is not the container's: the engine then counts processes in another namespace than this one.
pub(crate) fn memory_events(container: &str, pid: i64) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    locate(&mounts, &cgroups, container).filter(|path| path.exists())
}

/// How many processes were killed, out of such a file.
pub(crate) fn oom_kills(file: &Path) -> Option<u64> {
    count(&std::fs::read_to_string(file).ok()?)
}

fn locate(mounts: &str, cgroups: &str, container: &str) -> Option<PathBuf> {
    let (mut v1, mut v2) = (None, None);
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        if !path.contains(container) {
            continue;
        }
        if controllers.is_empty() {
            v2 = Some(path);
        } else if controllers
            .split(',')
            .any(|controller| controller == "memory")
        {
            v1 = Some(path);
        }
    }
    // Where both are mounted, the memory controller sits in v1.
    let file = |mount: Mount<'_>, path: &str, name: &str| {
        let below = path.strip_prefix(mount.root.trim_end_matches('/'))?;
        Some(
            Path::new(mount.point)
                .join(below.trim_start_matches('/'))
                .join(name),
        )
    };
    match (v1, v2) {
        (Some(path), _) => file(
            find_mount(mounts, "cgroup", Some("memory"))?,
            path,
            "memory.oom_control",
        ),
        (None, Some(path)) => file(find_mount(mounts, "cgroup2", None)?, path, "memory.events"),
        (None, None) => None,
    }
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
}

/// The first mount of this type, with this option of its file system.
fn find_mount<'a>(mounts: &'a str, kind: &str, option: Option<&str>) -> Option<Mount<'a>> {
    mounts.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split(' ');
        let (found, options) = (tail.next()?, tail.nth(1)?);
        let has_option = option.is_none_or(|option| options.split(',').any(|o| o == option));
        if found != kind || !has_option {
            return None;
        }
        let mut head = head.split(' ').skip(3);
        Some(Mount {
            root: head.next()?,
            point: head.next()?,
        })
    })
}

fn count(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
25 18 0:22 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu
31 18 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
32 18 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    const V2: &str =
        "26 18 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_memory_controller_is_found_in_both_versions() {
        let cgroups = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n";
        let path = locate(V1, cgroups, "abc").expect("v1");
        assert_eq!(
            path,
            Path::new("/sys/fs/cgroup/memory/docker/abc/memory.oom_control")
        );

        let cgroups = "0::/system.slice/docker-abc.scope\n";
        let path = locate(V2, cgroups, "abc").expect("v2");
        assert_eq!(
            path,
            Path::new("/sys/fs/cgroup/system.slice/docker-abc.scope/memory.events")
        );
    }

    #[test]
    fn a_process_of_another_cgroup_is_not_the_container() {
        assert_eq!(locate(V2, "0::/user.slice/session\n", "abc"), None);
        assert_eq!(locate("", "0::/docker/abc\n", "abc"), None);
    }

    #[test]
    fn kills_are_counted_in_both_formats() {
        assert_eq!(
            count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            Some(3)
        );
        assert_eq!(
            count("low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n"),
            Some(1)
        );
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\n"), None);
    }
}
