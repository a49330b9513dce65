//! What is measured, where, and beside what.

use serde::{Deserialize, Serialize};

mod cluster;
mod engines;
mod local;

/// Bytes that the throughput operations move.
pub const OUTPUT_BYTES: u64 = 256 << 20;
/// Processes of the tree that is killed, each in a session of its own.
pub const TREE: u32 = 500;
/// Containers that live at the same time on an engine.
pub const CROWD: u32 = 20;
/// Exchanges of one byte in an echo operation; its sample is one of them.
pub const ECHOES: u32 = 100;

/// A case of which one in so many rounds is enough takes too long to be warmed up.
const RARE: u32 = 50;

/// Something that a worker can do and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// `/bin/true` without any isolation, through posix_spawn.
    Spawn,
    /// `/bin/true` in `bwrap` with the namespaces that the local tier uses.
    Bwrap,
    /// Create a local sandbox, run `/bin/true` in it, kill it.
    OneShot,
    /// `sandbox run -- /bin/true`.
    Command,
    /// `/bin/true` in a local sandbox that runs.
    WarmExec,
    /// A program that writes [`OUTPUT_BYTES`], without isolation.
    OutputSpawn,
    /// The same in a local sandbox that runs.
    Output,
    /// A file of [`OUTPUT_BYTES`] copied from one folder in memory to another, without isolation.
    CopyFile,
    /// Such a file into a local sandbox that runs.
    Put,
    /// The same file out of it.
    Fetch,
    /// The end of an execution with a tree of [`TREE`] processes, from the order to its report.
    KillTree,
    /// 200 local sandboxes that live at the same time: made, used once, ended. A sample is a sandbox's share.
    Crowd200,
    /// The same with 1,000.
    Crowd1000,
    /// Python's `print(1)`, without isolation.
    PythonSpawn,
    /// The same in a local sandbox that runs.
    Python,
    /// A byte to `cat` and back, without isolation.
    EchoSpawn,
    /// The same in a local sandbox that runs.
    Echo,
    /// A task of an engine's, done in one of the ways to do it.
    Engine(Engine, Way, Task),
    /// A task of a cluster's, done in one of the ways to do it.
    Cluster(Way, Task),
}

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl Engine {
    /// Its name, which is that of its tier and of its command too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// Who does a task on an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The engine's own command, such as `docker`.
    Client,
    /// Bare calls of the engine's API.
    Api,
    /// A Python library for the same purpose, on the same daemon.
    PythonClient,
    /// The command `sandbox`.
    Command,
    /// Our library.
    Library,
    /// Our library, on a cluster whose namespaces let pods have no capability.
    Restricted,
}

/// What Python is given to do.
pub const PROGRAM: &str = "print(1)";

/// What is done on an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// `true` in a container of its own, which is gone afterwards.
    OneShot,
    /// `true` in a container that runs.
    Exec,
    /// Python's `print(1)` in a container that runs.
    Python,
    /// A container that takes executions.
    Open,
    /// Its end.
    Close,
    /// [`CROWD`] containers at the same time: made, used once, ended. A sample is a container's share.
    Crowd,
    /// A byte to `cat` and back.
    Echo,
}

/// The process in which operations are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A runtime of one thread, as in the command.
    OneThread,
    /// A runtime with a thread a processor.
    ManyThreads,
    /// One thread, and 1 GiB of resident memory.
    Large,
}

impl Place {
    /// Every kind of worker.
    pub const ALL: [Self; 3] = [Self::OneThread, Self::ManyThreads, Self::Large];

    /// The worker's arguments.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::OneThread => &[],
            Self::ManyThreads => &["--threads"],
            Self::Large => &["--ballast-mib", "1024"],
        }
    }

    /// For a reader.
    pub fn title(self) -> &'static str {
        match self {
            Self::OneThread => "",
            Self::ManyThreads => "runtime with threads",
            Self::Large => "parent of 1 GiB",
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Its name in the JSON, which stays.
    pub id: &'static str,
    /// For a reader.
    pub title: &'static str,
    /// What is done.
    pub operation: Operation,
    /// Where.
    pub place: Place,
    /// It takes part in one of so many rounds.
    pub every: u32,
    /// The case that it is compared with.
    pub rival: Option<&'static str>,
}

impl Case {
    /// Whether it takes part in the round, counted from 0, of `rounds`: in the first and the middle one at least, so that few
    /// rounds leave out nothing. What is rare takes part in the first of few only, because it takes long.
    pub fn takes_part(&self, round: u32, rounds: u32) -> bool {
        if self.is_rare() {
            return round.is_multiple_of(self.every);
        }
        round.is_multiple_of(self.every.min((rounds / 2).max(1)))
    }

    /// Whether it takes so long that nothing of it is spent on warming up.
    pub fn is_rare(&self) -> bool {
        self.every >= RARE
    }

    /// Whether it belongs to one of the groups: `local`, `k8s`, or an engine's name. All do where none is named.
    pub fn belongs_to(&self, groups: &[String]) -> bool {
        let group = match self.operation {
            Operation::Engine(engine, ..) => engine.name(),
            Operation::Cluster(..) => "k8s",
            _ => "local",
        };
        groups.is_empty() || groups.iter().any(|named| named == group)
    }

    /// How many bytes one operation moves, for those whose speed is that of bytes.
    pub fn bytes(&self) -> Option<u64> {
        matches!(
            self.operation,
            Operation::Output
                | Operation::OutputSpawn
                | Operation::CopyFile
                | Operation::Put
                | Operation::Fetch
        )
        .then_some(OUTPUT_BYTES)
    }
}

/// Every case, in the order of a round. What moves much memory comes last, because it takes the
/// processor's caches from what follows.
pub fn all() -> impl Iterator<Item = &'static Case> {
    local::SMALL
        .iter()
        .chain(&engines::DOCKER)
        .chain(&engines::PODMAN)
        .chain(&cluster::CLUSTER)
        .chain(&local::LARGE)
}

const fn case(
    id: &'static str,
    title: &'static str,
    operation: Operation,
    place: Place,
    every: u32,
    rival: Option<&'static str>,
) -> Case {
    Case {
        id,
        title,
        operation,
        place,
        every,
        rival,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rival_is_a_case_and_every_name_unique() {
        let cases: Vec<_> = all().collect();
        for (index, case) in cases.iter().enumerate() {
            let same = all().filter(|other| other.id == case.id).count();
            assert_eq!(same, 1, "{}", case.id);
            if let Some(rival) = case.rival {
                // Measured before, in the same round.
                let place = all().position(|other| other.id == rival);
                assert!(place.is_some_and(|place| place < index), "{}", case.id);
            }
        }
    }

    #[test]
    fn few_rounds_leave_out_nothing() {
        for rounds in [1, 2, 5, 200] {
            for case in all() {
                let count = (0..rounds)
                    .filter(|round| case.takes_part(*round, rounds))
                    .count();
                let least = if case.is_rare() { 1 } else { rounds.min(2) };
                assert!(count as u32 >= least, "{} of {rounds}", case.id);
            }
        }
    }

    #[test]
    fn a_group_is_local_or_an_engine() {
        let count = |groups: &[&str]| {
            let groups: Vec<_> = groups.iter().map(|&group| group.to_owned()).collect();
            all().filter(|case| case.belongs_to(&groups)).count()
        };
        let parts = ["local", "docker", "podman", "k8s"].map(|group| count(&[group]));
        assert!(parts.iter().all(|part| *part > 0), "{parts:?}");
        assert_eq!(parts.iter().sum::<usize>(), count(&[]));
        assert_eq!(parts[0] + parts[2], count(&["local", "podman"]));
        assert_eq!(count(&["other"]), 0);
    }
}
