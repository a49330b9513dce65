//! Jobs, and the lanes in which they run.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;

use super::requirements::Requirement;
use crate::cargo::{Executable, ExecutableKind};
use crate::conformance::PACKAGE as SUITE;

/// The time limit of one test program or one run of the suite.
const TEST_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Jobs of one lane run one after the other. Lanes run in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Lane {
    /// Checks of the source: format, clippy, documentation, examples
    Checks,
    /// Tests without an engine, and the local backend
    Local,
    /// Tests of the conformance suite itself
    Suite,
    /// What depends on the user, as an ordinary user
    LocalUser,
    /// The Docker engine
    Docker,
    /// The Podman engine of root
    Podman,
    /// The Podman engine of an ordinary user
    PodmanRootless,
    /// The Kubernetes cluster
    #[value(name = "k8s")]
    Kubernetes,
}

impl Lane {
    /// The engine that its jobs use.
    pub fn engine(self) -> Option<Requirement> {
        match self {
            Self::Checks | Self::Local | Self::Suite | Self::LocalUser => None,
            Self::Docker => Some(Requirement::Docker),
            Self::Podman => Some(Requirement::Podman),
            Self::PodmanRootless => Some(Requirement::PodmanRootless),
            Self::Kubernetes => Some(Requirement::Kubernetes),
        }
    }
}

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A check of a change in a few minutes
    Quick,
    /// Everything except slow tests that rarely fail alone
    Commit,
    /// Everything
    Full,
}

/// How the counts are read from a job's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// It counts no tests.
    Plain,
    /// One test program.
    Tests,
    /// Several test programs, one after the other.
    ManyTests,
}

/// One program to run.
#[derive(Debug)]
pub struct Job {
    /// The lane.
    pub lane: Lane,
    /// The name within the lane.
    pub name: String,
    /// The program, its arguments, environment and folder.
    pub command: Command,
    /// Its time limit.
    pub limit: Duration,
    /// How its counts are read.
    pub output: OutputKind,
    /// The numbers of the user that runs it and of the group, if not the caller's.
    pub user: Option<(u32, u32)>,
    /// A program to copy for that user before the job, and the target.
    pub copy: Option<(PathBuf, PathBuf)>,
}

impl Job {
    /// A job of the caller.
    pub fn new(lane: Lane, name: impl Into<String>, command: Command, output: OutputKind) -> Self {
        Self {
            lane,
            name: name.into(),
            command,
            limit: TEST_LIMIT,
            output,
            user: None,
            copy: None,
        }
    }
}

/// Whether a test program runs the probes that a job of the suite runs.
pub fn measured_by_suite(package: &str, test: &Executable) -> bool {
    let engines = ["sandbox-docker", "sandbox-podman", "sandbox-k8s"];
    match &*test.name {
        "conformance" => engines.contains(&package),
        "trials" => package == SUITE,
        _ => false,
    }
}

/// The lane of a test program.
pub fn lane_of(package: &str, test: &Executable) -> Lane {
    match (package, &*test.name, test.kind) {
        (_, _, ExecutableKind::UnitTests) => Lane::Local,
        ("sandbox-docker", ..)
        | ("sandbox-cli", "docker", _)
        | ("sandbox", "docker_examples", _) => Lane::Docker,
        ("sandbox-podman", ..) => Lane::Podman,
        ("sandbox-k8s", ..) | ("sandbox", "k8s_examples", _) => Lane::Kubernetes,
        // Cargo runs in it, and would wait for the other checks.
        (SUITE, "guide", _) => Lane::Checks,
        (SUITE, ..) => Lane::Suite,
        _ => Lane::Local,
    }
}
