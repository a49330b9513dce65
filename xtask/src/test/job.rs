//! Jobs, and the lanes in which they run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use super::user::User;

/// Jobs of one lane run one after the other. Lanes run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Lane {
    /// What reads the source alone: format, clippy, documentation, examples
    Checks,
    /// Tests without an engine, and the local backend
    Local,
    /// The Docker engine
    Docker,
    /// The Podman engine, as root and rootless
    Podman,
    /// The Kubernetes cluster
    #[value(name = "k8s")]
    Kubernetes,
}

impl Lane {
    /// The name, as in the arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Checks => "checks",
            Self::Local => "local",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Kubernetes => "k8s",
        }
    }
}

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What shows in a few minutes that a change is sound
    Quick,
    /// Everything but what takes long and seldom fails by itself
    Commit,
    /// Everything
    Full,
}

/// How the counts are read from a job's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
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
    /// Most time for it.
    pub limit: Duration,
    /// How its counts are read.
    pub output: Output,
    /// The user as whom it runs, where that is not the caller.
    pub user: Option<Arc<User>>,
    /// A program to copy for that user before the job, and where to.
    pub copy: Option<(PathBuf, PathBuf)>,
}
