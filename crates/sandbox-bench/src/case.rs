//! What is measured, where, and beside what.

use serde::{Deserialize, Serialize};

/// Bytes that the throughput operations move.
pub const OUTPUT_BYTES: u64 = 256 << 20;
/// Processes of the tree that is killed, each in a session of its own.
pub const TREE: u32 = 500;
/// Exchanges of one byte in an echo operation; its sample is one of them.
pub const ECHOES: u32 = 100;

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
    /// A byte to `cat` and back, without isolation.
    EchoSpawn,
    /// The same in a local sandbox that runs.
    Echo,
    /// Create, start, wait for and remove a container, through the engine's API alone.
    DockerApiRun,
    /// Create a Docker sandbox, run `true` in it, kill it.
    DockerOneShot,
    /// `docker exec CONTAINER true`, the engine's own client.
    DockerExec,
    /// The same through the engine's API alone.
    DockerApiExec,
    /// `true` in a Docker sandbox that runs.
    DockerWarmExec,
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
    /// Whether it takes part in the round, counted from 0, of `rounds`. At least every second one,
    /// so that few rounds leave out nothing.
    pub fn takes_part(&self, round: u32, rounds: u32) -> bool {
        round.is_multiple_of(self.every.min((rounds / 2).max(1)))
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

use Operation::*;
use Place::*;

/// Every case, in the order of a round. What moves much memory comes last, because it takes the
/// processor's caches from what follows.
pub const CASES: [Case; 29] = [
    case(
        "spawn",
        "plain spawn of /bin/true",
        Spawn,
        OneThread,
        1,
        None,
    ),
    case(
        "bwrap",
        "bwrap /bin/true",
        Bwrap,
        OneThread,
        1,
        Some("spawn"),
    ),
    case(
        "one-shot",
        "local, one-shot, in process",
        OneShot,
        OneThread,
        1,
        Some("bwrap"),
    ),
    case(
        "command",
        "local, sandbox run -- /bin/true",
        Command,
        OneThread,
        1,
        Some("bwrap"),
    ),
    case(
        "warm-exec",
        "local, warm exec",
        WarmExec,
        OneThread,
        1,
        Some("spawn"),
    ),
    case(
        "one-shot-threads",
        "local, one-shot, in process",
        OneShot,
        ManyThreads,
        1,
        Some("bwrap"),
    ),
    case(
        "warm-exec-threads",
        "local, warm exec",
        WarmExec,
        ManyThreads,
        1,
        Some("spawn"),
    ),
    case(
        "spawn-1gib",
        "plain spawn of /bin/true",
        Spawn,
        Large,
        1,
        Some("spawn"),
    ),
    case(
        "bwrap-1gib",
        "bwrap /bin/true",
        Bwrap,
        Large,
        1,
        Some("bwrap"),
    ),
    case(
        "one-shot-1gib",
        "local, one-shot, in process",
        OneShot,
        Large,
        1,
        Some("one-shot"),
    ),
    case(
        "warm-exec-1gib",
        "local, warm exec",
        WarmExec,
        Large,
        1,
        Some("warm-exec"),
    ),
    case(
        "command-1gib",
        "local, sandbox run -- /bin/true",
        Command,
        Large,
        1,
        Some("command"),
    ),
    case(
        "docker-api-run",
        "docker API: create, start, wait, remove",
        DockerApiRun,
        OneThread,
        10,
        None,
    ),
    case(
        "docker-one-shot",
        "docker, one-shot, in process",
        DockerOneShot,
        OneThread,
        10,
        Some("docker-api-run"),
    ),
    case(
        "docker-exec",
        "docker exec true (the client)",
        DockerExec,
        OneThread,
        5,
        None,
    ),
    case(
        "docker-api-exec",
        "docker API: exec true",
        DockerApiExec,
        OneThread,
        5,
        Some("docker-exec"),
    ),
    case(
        "docker-warm-exec",
        "docker, warm exec",
        DockerWarmExec,
        OneThread,
        1,
        Some("docker-exec"),
    ),
    case(
        "docker-warm-exec-threads",
        "docker, warm exec",
        DockerWarmExec,
        ManyThreads,
        1,
        Some("docker-exec"),
    ),
    case(
        "echo-spawn",
        "a byte to plain cat and back",
        EchoSpawn,
        OneThread,
        4,
        None,
    ),
    case(
        "echo",
        "local, a byte to cat and back",
        Echo,
        OneThread,
        4,
        Some("echo-spawn"),
    ),
    case(
        "output-spawn",
        "256 MiB from a plain program",
        OutputSpawn,
        OneThread,
        8,
        None,
    ),
    case(
        "output",
        "local, 256 MiB of stdout",
        Output,
        OneThread,
        8,
        Some("output-spawn"),
    ),
    case(
        "output-threads",
        "local, 256 MiB of stdout",
        Output,
        ManyThreads,
        8,
        Some("output-spawn"),
    ),
    case(
        "copy-file",
        "a file of 256 MiB, plain copy",
        CopyFile,
        OneThread,
        20,
        None,
    ),
    case(
        "put",
        "local, a file of 256 MiB in",
        Put,
        OneThread,
        20,
        Some("copy-file"),
    ),
    case(
        "fetch",
        "local, the same file out",
        Fetch,
        OneThread,
        20,
        Some("copy-file"),
    ),
    case(
        "kill-tree",
        "local, end of a tree of 500 sessions",
        KillTree,
        OneThread,
        20,
        None,
    ),
    case(
        "crowd-200",
        "local, one of 200 at once",
        Crowd200,
        ManyThreads,
        100,
        Some("one-shot-threads"),
    ),
    case(
        "crowd-1000",
        "local, one of 1,000 at once",
        Crowd1000,
        ManyThreads,
        100,
        Some("one-shot-threads"),
    ),
];

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
        for (index, case) in CASES.iter().enumerate() {
            let same = CASES.iter().filter(|other| other.id == case.id).count();
            assert_eq!(same, 1, "{}", case.id);
            if let Some(rival) = case.rival {
                // Measured before, in the same round.
                let place = CASES.iter().position(|other| other.id == rival);
                assert!(place.is_some_and(|place| place < index), "{}", case.id);
            }
        }
    }

    #[test]
    fn few_rounds_leave_out_nothing() {
        for rounds in [1, 2, 5, 200] {
            for case in CASES {
                let count = (0..rounds)
                    .filter(|round| case.takes_part(*round, rounds))
                    .count();
                assert!(count as u32 >= rounds.min(2), "{} of {rounds}", case.id);
            }
        }
    }
}
