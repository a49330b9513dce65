//! What is left of a suite: processes, files, mounts and control groups of this host, and what its tier has.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::suite::{Process, Suite};
use crate::tier::Tier;

/// How long a reaper may take where an engine does not answer, and more.
const PATIENCE: Duration = Duration::from_secs(90);

const PAUSE: Duration = Duration::from_millis(50);

/// What to look for.
pub struct Remains<'a> {
    tier: &'a Tier,
    suite: Process,
    /// The suite, and what it had started at the time.
    processes: Vec<Process>,
    /// What its containers had at the time.
    volumes: Vec<String>,
}

impl<'a> Remains<'a> {
    pub fn of(suite: &Suite<'a>) -> Self {
        let all = Process::all();
        let mut processes = vec![suite.process()];
        let mut next = 0;
        while let Some(parent) = processes.get(next).copied() {
            let children = all.iter().filter(|(_, of)| *of == parent.pid);
            processes.extend(children.map(|(child, _)| *child));
            next += 1;
        }
        // The suite, its reaper.
        assert!(processes.len() >= 2, "{processes:?}");
        Self {
            tier: suite.tier,
            suite: suite.process(),
            processes,
            volumes: suite.tier.volumes(suite.process()),
        }
    }

    /// What it had started at the time.
    pub fn started(&self) -> &[Process] {
        &self.processes[1..]
    }

    /// What its containers had at the time.
    #[cfg(feature = "engines")]
    pub fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Waits until nothing is left, this long at most, and then for the end of the reaper that has looked after it.
    pub fn assert_gone(&self, bound: Duration, told: &str) {
        self.wait(bound, told, is_reaper);
        self.wait(PATIENCE, told, |_| false);
    }

    fn wait(&self, bound: Duration, told: &str, but: fn(&Process) -> bool) {
        let start = Instant::now();
        loop {
            let left = self.left_but(but);
            if left.is_empty() {
                println!("{told}: gone after {:?}", start.elapsed());
                return;
            }
            assert!(
                start.elapsed() < bound,
                "{told}: left after {:?}: {left:#?}",
                start.elapsed()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Everything that is there now.
    pub fn left(&self) -> Vec<String> {
        self.left_but(|_| false)
    }

    fn left_but(&self, but: fn(&Process) -> bool) -> Vec<String> {
        let Process { pid, start } = self.suite;
        let mut left = self.processes(but);
        let told = |kind: &str, path: PathBuf| format!("{kind} {}", path.display());
        left.extend(folders(pid).into_iter().map(|path| told("file", path)));
        // Mounts of sandboxes are in their own namespaces, which end with them; what is seen here was mounted on the host.
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
        left.extend(groups.into_iter().map(|path| told("group", path)));
        left.extend(self.tier.of(self.suite, &self.volumes));
        left
    }

    /// Those that it had started, and those that carry its mark: probes, on the host or in a sandbox, and whatever has its environment.
    fn processes(&self, but: fn(&Process) -> bool) -> Vec<String> {
        let mark = mark(self.suite.pid);
        let all = Process::all().into_iter().map(|(process, _)| process);
        let ours = |process: &Process| {
            let carries = |file: &str| {
                let content = std::fs::read(format!("/proc/{}/{file}", process.pid));
                content.is_ok_and(|content| contains(&content, mark.as_bytes()))
            };
            self.processes.contains(process) || carries("cmdline") || carries("environ")
        };
        let told = |process: Process| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            format!("process {}: {line}", process.pid)
        };
        all.filter(|process| ours(process) && !but(process))
            .map(told)
            .collect()
    }
}

/// Whether a process is the reaper of a suite.
pub fn is_reaper(process: &Process) -> bool {
    let environ = std::fs::read(format!("/proc/{}/environ", process.pid));
    let variable = b"SANDBOX_CONFORMANCE_REAPER=";
    environ.is_ok_and(|environ| {
        environ
            .split(|byte| *byte == 0)
            .any(|one| one.starts_with(variable))
    })
}

/// What the paths of a suite have in them.
pub fn mark(pid: u32) -> String {
    format!("conformance-{pid}-")
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The programs that the suite with this number runs on the host itself, as controls.
pub fn programs(pid: u32) -> Vec<String> {
    let folder = format!("/var/tmp/sandbox-{}", mark(pid));
    let all = Process::all().into_iter();
    let programs = all.filter_map(|(one, _)| {
        let program = std::fs::read_link(format!("/proc/{}/exe", one.pid)).ok()?;
        let program = program.to_string_lossy();
        program
            .starts_with(&folder)
            .then(|| format!("process {}: {program}", one.pid))
    });
    programs.collect()
}

/// The folders and files of the host that the suite with this number has made.
pub fn folders(pid: u32) -> Vec<PathBuf> {
    let names = [mark(pid), format!("probe-{pid}-")];
    let mut found = Vec::new();
    let home = std::env::var("HOME").ok();
    let places = ["/var/tmp", "/tmp", "/dev/shm"].into_iter();
    for place in places.chain(home.as_deref()) {
        // Where there is no such folder, nothing is in it.
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

/// The folders below one with this in their names.
pub fn named(folder: &Path, part: &str, found: &mut Vec<PathBuf>) {
    // One that went meanwhile, or may not be read, has nothing of ours.
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
