//! The leftovers of a suite: processes, files, mounts and control groups of this host, and
//! sandboxes of its tier.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::suite::{Suite, SuiteProcess};
use crate::tier::Tier;

/// More than the reaper's time limit.
const CLEANUP_LIMIT: Duration = Duration::from_secs(90);

const PAUSE: Duration = Duration::from_millis(50);

/// The leftovers to look for.
pub struct Leftovers<'a> {
    tier: &'a Tier,
    suite: SuiteProcess,
    /// The suite, and the processes that it had started.
    processes: Vec<SuiteProcess>,
    /// The volumes of its containers.
    volumes: Vec<String>,
}

impl<'a> Leftovers<'a> {
    pub fn of(suite: &Suite<'a>) -> Self {
        let all = SuiteProcess::all();
        let mut processes = vec![suite.process()];
        let mut next = 0;
        while let Some(parent) = processes.get(next).copied() {
            let children = all.iter().filter(|(_, of)| *of == parent.pid);
            processes.extend(children.map(|(child, _)| *child));
            next += 1;
        }
        // The suite and its reaper.
        assert!(processes.len() >= 2, "{processes:?}");
        Self {
            tier: suite.tier,
            suite: suite.process(),
            processes,
            volumes: suite.tier.volumes(suite.process()),
        }
    }

    /// The processes that it had started.
    pub fn started(&self) -> &[SuiteProcess] {
        &self.processes[1..]
    }

    /// The volumes of its containers.
    #[cfg(feature = "engines")]
    pub fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Waits at most `bound` until nothing is left, and then for the end of the reaper.
    pub fn assert_gone(&self, bound: Duration, label: &str) {
        self.wait(bound, label, is_reaper);
        self.wait(CLEANUP_LIMIT, label, |_| false);
    }

    fn wait(&self, bound: Duration, label: &str, but: fn(&SuiteProcess) -> bool) {
        let start = Instant::now();
        loop {
            let left = self.left_but(but);
            if left.is_empty() {
                println!("{label}: gone after {:?}", start.elapsed());
                return;
            }
            assert!(
                start.elapsed() < bound,
                "{label}: left after {:?}: {left:#?}",
                start.elapsed()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Everything that exists now.
    pub fn left(&self) -> Vec<String> {
        self.left_but(|_| false)
    }

    fn left_but(&self, but: fn(&SuiteProcess) -> bool) -> Vec<String> {
        let SuiteProcess { pid, start } = self.suite;
        let mut left = self.processes(but);
        let label = |kind: &str, path: PathBuf| format!("{kind} {}", path.display());
        left.extend(folders(pid).into_iter().map(|path| label("file", path)));
        // Mounts inside sandboxes end with their namespaces. These were mounted on the host.
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let owned = format!("-{pid}-{start}-");
        let ours = |line: &&str| line.contains(&owned) || line.contains(&mark(pid));
        left.extend(
            mounts
                .lines()
                .filter(ours)
                .map(|line| format!("mount {line}")),
        );
        let mut groups = Vec::new();
        named(Path::new("/sys/fs/cgroup"), &owned, &mut groups);
        left.extend(groups.into_iter().map(|path| label("group", path)));
        left.extend(self.tier.of(self.suite, &self.volumes));
        left
    }

    /// The processes that the suite had started, and those with its mark: probes, and programs with
    /// its environment.
    fn processes(&self, but: fn(&SuiteProcess) -> bool) -> Vec<String> {
        let mark = mark(self.suite.pid);
        let all = SuiteProcess::all().into_iter().map(|(process, _)| process);
        let ours = |process: &SuiteProcess| {
            let carries = |file: &str| {
                let content = std::fs::read(format!("/proc/{}/{file}", process.pid));
                content.is_ok_and(|content| contains(&content, mark.as_bytes()))
            };
            self.processes.contains(process) || carries("cmdline") || carries("environ")
        };
        let label = |process: SuiteProcess| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            format!("process {}: {line}", process.pid)
        };
        all.filter(|process| ours(process) && !but(process))
            .map(label)
            .collect()
    }
}

/// Whether a process is the reaper of a suite.
pub fn is_reaper(process: &SuiteProcess) -> bool {
    let environ = std::fs::read(format!("/proc/{}/environ", process.pid));
    let variable = b"SANDBOX_CONFORMANCE_REAPER=";
    environ.is_ok_and(|environ| {
        environ
            .split(|byte| *byte == 0)
            .any(|one| one.starts_with(variable))
    })
}

/// The part that all paths of a suite contain.
pub fn mark(pid: u32) -> String {
    format!("conformance-{pid}-")
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The programs that this suite runs on the host as controls.
pub fn programs(pid: u32) -> Vec<String> {
    let folder = format!("/var/tmp/sandbox-{}", mark(pid));
    let all = SuiteProcess::all().into_iter();
    let programs = all.filter_map(|(one, _)| {
        let program = std::fs::read_link(format!("/proc/{}/exe", one.pid)).ok()?;
        let program = program.to_string_lossy();
        program
            .starts_with(&folder)
            .then(|| format!("process {}: {program}", one.pid))
    });
    programs.collect()
}

/// The host folders and files of this suite.
pub fn folders(pid: u32) -> Vec<PathBuf> {
    let names = [mark(pid), format!("probe-{pid}-")];
    let mut found = Vec::new();
    let home = std::env::var("HOME").ok();
    let places = ["/var/tmp", "/tmp", "/dev/shm"].into_iter();
    for place in places.chain(home.as_deref()) {
        // A missing folder is empty.
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            names.iter().any(|mark| name.contains(mark))
        });
        found.extend(ours.map(|entry| entry.path()));
    }
    found
}

/// The folders below this one whose names contain the mark.
pub fn named(folder: &Path, part: &str, found: &mut Vec<PathBuf>) {
    // The folder may have been removed, or belongs to another user.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().contains(part) {
            found.push(entry.path());
        }
        named(&entry.path(), part, found);
    }
}
