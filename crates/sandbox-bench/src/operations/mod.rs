//! The operations, and what they keep between two calls.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::case::Operation;
use crate::failure::{Failure, Result};
use crate::memory::Footprint;
use crate::protocol::Sample;

#[cfg(feature = "docker")]
mod docker;
mod echo;
mod plain;
mod sandboxes;

use sandboxes::Tier;

/// The smallest test image, so that its size plays no part.
const BUSYBOX: &str = "sandbox-test/busybox:latest";

/// Everything that a worker can do.
#[derive(Debug)]
pub struct Operations {
    command: Option<PathBuf>,
    local: Tier,
    docker: Tier,
    #[cfg(feature = "docker")]
    engine: docker::Engine,
}

impl Operations {
    /// Nothing is opened before the first operation that needs it. `command` is the `sandbox`
    /// program.
    pub fn new(command: Option<PathBuf>) -> Self {
        Self {
            command,
            local: Tier::new("local", cfg!(feature = "local"), None),
            docker: Tier::new("docker", cfg!(feature = "docker"), Some(BUSYBOX)),
            #[cfg(feature = "docker")]
            engine: docker::Engine::default(),
        }
    }

    /// Does `operation` once. What it needs beforehand is made without being timed.
    ///
    /// # Errors
    /// When this machine lacks what is measured, or when it fails.
    pub async fn run(&mut self, operation: Operation) -> Result<Sample> {
        match operation {
            Operation::Spawn => plain::spawn(),
            Operation::Bwrap => plain::bwrap(),
            Operation::Command => plain::command(self.command.as_deref()),
            Operation::OutputSpawn => plain::output(),
            Operation::EchoSpawn => plain::echo(),
            Operation::CopyFile => plain::copy(),
            Operation::Put => self.local.put().await,
            Operation::Fetch => self.local.fetch().await,
            Operation::KillTree => self.local.kill_tree().await,
            Operation::Crowd200 => self.local.crowd(200).await,
            Operation::Crowd1000 => self.local.crowd(1000).await,
            Operation::OneShot => self.local.one_shot().await,
            Operation::WarmExec => self.local.warm_exec().await,
            Operation::Output => self.local.output().await,
            Operation::Echo => self.local.echo().await,
            Operation::DockerOneShot => self.docker.one_shot().await,
            Operation::DockerWarmExec => self.docker.warm_exec().await,
            #[cfg(feature = "docker")]
            Operation::DockerApiRun => self.engine.run().await,
            #[cfg(feature = "docker")]
            Operation::DockerApiExec => self.engine.exec().await,
            #[cfg(feature = "docker")]
            Operation::DockerExec => self.engine.client_exec().await,
            #[cfg(not(feature = "docker"))]
            Operation::DockerApiRun | Operation::DockerApiExec | Operation::DockerExec => Err(
                Failure::Missing("built without the feature docker".to_owned()),
            ),
        }
    }

    /// The processes that one more idle local sandbox costs.
    ///
    /// # Errors
    /// As [`Operations::run`].
    pub async fn memory(&mut self) -> Result<Vec<Footprint>> {
        self.local.memory().await
    }

    /// Ends what is still running.
    ///
    /// # Errors
    /// When something cannot be ended.
    pub async fn end(self) -> Result<()> {
        let local = self.local.end().await;
        let docker = self.docker.end().await;
        #[cfg(feature = "docker")]
        self.engine.end().await?;
        local.and(docker)
    }
}

/// Times a whole and its parts.
struct Stopwatch {
    begin: Instant,
    last: Instant,
    parts: Vec<(String, u64)>,
}

impl Stopwatch {
    fn start() -> Self {
        let begin = Instant::now();
        Self {
            begin,
            last: begin,
            parts: Vec::new(),
        }
    }

    fn part(&mut self, name: &str) {
        let now = Instant::now();
        self.parts
            .push((name.to_owned(), nanoseconds(now - self.last)));
        self.last = now;
    }

    /// What was done since the last part is not timed.
    fn pass(&mut self) {
        let now = Instant::now();
        self.begin += now - self.last;
        self.last = now;
    }

    fn stop(self) -> Sample {
        Sample {
            nanoseconds: nanoseconds(self.begin.elapsed()),
            parts: self.parts,
            memory: None,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn failed(what: impl Into<String>) -> Failure {
    Failure::Failed(what.into())
}
