//! The kernel's counters and limits of a container, read from its cgroups and its network
//! namespace. Available only if the engine runs on this host.

use std::fs::File;
use std::path::{Path, PathBuf};

use sandbox_core::SandboxStats;
use sandbox_host::{CounterFiles, Counters, cgroup_stats, memory_kills};

use crate::Family;

/// The cgroups of a container and its first process.
#[derive(Debug)]
pub(crate) struct ContainerCgroups {
    memory: Cgroup,
    pids: Option<Cgroup>,
    cpu: Option<Cgroup>,
    /// Those that only count, where version 1 has them apart.
    accounting: Vec<Cgroup>,
    first_process: Option<i32>,
    /// Kept open, like the counters: both are read around every execution.
    memory_events: Option<File>,
    refusals: CounterFiles,
}

impl ContainerCgroups {
    /// Finds the cgroups at the engine's usual paths. The paths contain the container's id, so no
    /// other container can match. `None` if they are elsewhere.
    pub(crate) fn at_usual_paths(
        family: &Family,
        container: &str,
        no_network: bool,
    ) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let tables = family.cgroups.iter().flat_map(|pattern| {
            let path = pattern.replace("{id}", container);
            [
                format!(
                    "1:memory:{path}\n2:pids:{path}\n3:cpu:{path}\n4:cpuacct:{path}\n5:blkio:{path}"
                ),
                format!("0::{path}"),
            ]
        });
        tables
            .filter_map(|cgroups| Self::find(&mounts, &cgroups, container, None, no_network))
            .find(|counts| counts.first_process.is_some())
    }

    /// Finds the cgroups of the container whose first process is `pid`. `None` if no such process
    /// exists, because the engine may count processes in another namespace. Also `None` if the
    /// process is in a cgroup without the container's id, as under an engine without cgroup rights.
    pub(crate) fn of_process(container: &str, pid: i64, no_network: bool) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        // The pid may belong to another process here: only a cgroup with the container's id proves
        // it.
        let pid = i32::try_from(pid).ok();
        Self::find(&mounts, &cgroups, container, pid, no_network)
    }

    /// `None` if the container has no cgroup that limits memory.
    fn find(
        mounts: &str,
        cgroups: &str,
        container: &str,
        process: Option<i32>,
        no_network: bool,
    ) -> Option<Self> {
        let group = |controller| {
            let cgroup = locate(mounts, cgroups, container, controller);
            cgroup.filter(|cgroup| cgroup.folder.exists())
        };
        let memory = group("memory")?;
        let pids = group("pids");
        let first_process = process.or_else(|| first_process(&memory.folder));
        let process_limit = pids.as_ref().map(|cgroup| cgroup.folder.as_path());
        // Network refusals are counted only in the namespace that a policy asks for.
        let in_network = first_process.filter(|_| no_network);
        Some(Self {
            memory_events: File::open(memory.memory_events()).ok(),
            refusals: CounterFiles::open(process_limit, in_network),
            memory,
            pids,
            cpu: group("cpu"),
            accounting: ["cpuacct", "blkio"].into_iter().filter_map(group).collect(),
            first_process,
        })
    }

    /// The cgroup that limits memory.
    pub(crate) fn memory(&self) -> &Cgroup {
        &self.memory
    }

    /// The cgroup that limits processes.
    pub(crate) fn pids(&self) -> Option<&Cgroup> {
        self.pids.as_ref()
    }

    /// The cgroup that limits processor time.
    pub(crate) fn cpu(&self) -> Option<&Cgroup> {
        self.cpu.as_ref()
    }

    /// Pid of the container's first process on this host.
    pub(crate) fn first_process(&self) -> Option<i32> {
        self.first_process
    }

    /// Number of processes killed for memory.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        memory_kills(self.memory_events.as_ref()?)
    }

    /// What all processes of the container have used.
    pub(crate) fn stats(&self) -> SandboxStats {
        let groups = [Some(&self.memory), self.pids.as_ref(), self.cpu.as_ref()];
        let groups = groups.into_iter().flatten().chain(&self.accounting);
        cgroup_stats(groups.map(|group| group.folder.as_path()))
    }

    /// The kernel's other refusals.
    pub(crate) fn counters(&self) -> Counters {
        self.refusals.read()
    }
}

/// The lowest pid in the cgroup: in a container that was just started, its first process. `None` if
/// the pids belong to another namespace.
fn first_process(folder: &Path) -> Option<i32> {
    let processes = std::fs::read_to_string(folder.join("cgroup.procs")).ok()?;
    let pids = processes.lines().filter_map(|line| line.parse().ok());
    pids.filter(|pid| *pid > 0).min()
}

/// A cgroup of a container.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    folder: PathBuf,
    /// Whether this is cgroup v2.
    pub(crate) version_2: bool,
    container: String,
}

impl Cgroup {
    /// A cgroup of the container with this id.
    pub(crate) fn new(folder: PathBuf, version_2: bool, container: &str) -> Self {
        Self {
            folder,
            version_2,
            container: container.to_owned(),
        }
    }

    /// This folder and its parents that belong to the container: some runtimes use a nested group.
    pub(crate) fn own_ancestors(&self) -> impl Iterator<Item = &Path> {
        let is_own = |folder: &&Path| folder.to_string_lossy().contains(&self.container);
        self.folder.ancestors().take_while(is_own)
    }

    fn memory_events(&self) -> PathBuf {
        self.folder.join(if self.version_2 {
            "memory.events"
        } else {
            "memory.oom_control"
        })
    }
}

fn locate(mounts: &str, cgroups: &str, container: &str, controller: &str) -> Option<Cgroup> {
    let (mut v1, mut v2) = (None, None);
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        if !path.contains(container) {
            continue;
        }
        if controllers.is_empty() {
            v2 = Some(path);
        } else if controllers.split(',').any(|name| name == controller) {
            v1 = Some(path);
        }
    }
    let cgroup = |mount: CgroupMount<'_>, path: &str, version_2| {
        let below = path.strip_prefix(mount.root.trim_end_matches('/'))?;
        let folder = Path::new(mount.point).join(below.trim_start_matches('/'));
        Some(Cgroup::new(folder, version_2, container))
    };
    // If both versions are mounted, the controller is in v1.
    match (v1, v2) {
        (Some(path), _) => cgroup(find_mount(mounts, "cgroup", Some(controller))?, path, false),
        (None, Some(path)) => cgroup(find_mount(mounts, "cgroup2", None)?, path, true),
        (None, None) => None,
    }
}

struct CgroupMount<'a> {
    root: &'a str,
    point: &'a str,
}

/// The first mount of this file system type, with this option.
fn find_mount<'a>(mounts: &'a str, kind: &str, option: Option<&str>) -> Option<CgroupMount<'a>> {
    mounts.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split(' ');
        let (file_system, options) = (tail.next()?, tail.nth(1)?);
        let has_option = option.is_none_or(|option| options.split(',').any(|o| o == option));
        if file_system != kind || !has_option {
            return None;
        }
        let mut head = head.split(' ').skip(3);
        Some(CgroupMount {
            root: head.next()?,
            point: head.next()?,
        })
    })
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

    fn memory(mounts: &str, cgroups: &str) -> Option<PathBuf> {
        locate(mounts, cgroups, "abc", "memory").map(|cgroup| cgroup.memory_events())
    }

    #[test]
    fn memory_controller_is_found_in_cgroup_v1_and_v2() {
        let cgroups = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n";
        let path = Path::new("/sys/fs/cgroup/memory/docker/abc/memory.oom_control");
        assert_eq!(memory(V1, cgroups).as_deref(), Some(path));
        // No hierarchy of that controller is mounted.
        assert_eq!(locate(V1, "4:pids:/docker/abc\n", "abc", "pids"), None);

        let cgroups = "0::/system.slice/docker-abc.scope\n";
        let folder = Path::new("/sys/fs/cgroup/system.slice/docker-abc.scope");
        assert_eq!(memory(V2, cgroups), Some(folder.join("memory.events")));
        let pids = locate(V2, cgroups, "abc", "pids");
        assert_eq!(pids.map(|cgroup| cgroup.folder).as_deref(), Some(folder));
    }

    #[test]
    fn cgroup_without_the_container_id_is_ignored() {
        assert_eq!(memory(V2, "0::/user.slice/session\n"), None);
        assert_eq!(memory("", "0::/docker/abc\n"), None);
    }

    #[test]
    fn first_process_has_the_lowest_pid() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(first_process(folder.path()), None);
        std::fs::write(folder.path().join("cgroup.procs"), "70\n0\n42\n").unwrap();
        assert_eq!(first_process(folder.path()), Some(42));
    }
}
